"""The few calls of Nomad's HTTP API that commands need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self
from urllib.parse import quote

import httpx

from cli.applied import Applied
from cli.clusters.servers import TIMEOUT_S, Server
from cli.environment import Environment

NANOSECONDS_PER_S = 1_000_000_000
ENDED = frozenset({"complete", "failed", "lost"})


class Nomad(Server):
    AUTHORIZATION_HEADER = "X-Nomad-Token"

    @classmethod
    def of(cls, environment: Environment, applied: Applied) -> Self:
        token, name = environment.token("nomad"), applied.server_names.get(applied.nomad, "")
        return cls.of_any([applied.nomad], token, applied.operator, name)

    def nodes(self) -> list[dict[str, Any]]:
        """With their devices."""
        return self._list("/v1/nodes", resources="true")

    def server_members(self) -> list[dict[str, Any]]:
        """Every server that this one knows, also those that failed or left."""
        found: list[dict[str, Any]] = self._get("/v1/agent/members").json()["Members"]
        return found

    def voters(self) -> set[str]:
        """The hosts of the servers that are in the quorum."""
        found = self._get("/v1/operator/raft/configuration").json()["Servers"]
        return {str(each["Node"]).rpartition(".")[0] for each in found if each["Voter"]}

    def servers_named(self, host: str) -> list[dict[str, Any]]:
        """The members of a host, whose names end with their region ("server-0.global")."""
        return [each for each in self.server_members() if each["Name"].rpartition(".")[0] == host]

    def node_named(self, name: str) -> dict[str, Any] | None:
        """The node of a host: the one that is ready, else the newest entry."""
        return newest_by_name(self.nodes()).get(name)

    def node(self, node_id: str) -> dict[str, Any]:
        """With its metadata."""
        node: dict[str, Any] = self._get(f"/v1/node/{node_id}").json()
        return node

    def nodes_where(self, condition: str) -> dict[str, dict[str, Any]]:
        """Host -> its node with its metadata, of those on which a condition holds (in Nomad's
        filter expressions)."""
        listed = self._list("/v1/nodes", filter=condition)
        return {name: self.node(each["ID"]) for name, each in newest_by_name(listed).items()}

    def set_metadata(self, node_id: str, metadata: Mapping[str, str]) -> None:
        """Nomad keeps it on the node itself, over restarts."""
        path, parameters = "/v1/client/metadata", {"node_id": node_id}
        body = {"Meta": dict(metadata)}
        self._http.post(path, params=parameters, json=body).raise_for_status()

    def allocations_on(self, node_id: str) -> list[dict[str, Any]]:
        return self._list(f"/v1/node/{node_id}/allocations")

    def file(self, allocation_id: str, path: str) -> str:
        """A file of an allocation, by its path there."""
        return self._get(f"/v1/client/fs/cat/{allocation_id}", {"path": path}).text

    def drain(self, node_id: str, deadline_s: int) -> None:
        """Moves the node's allocations to other nodes; those left at the deadline are stopped."""
        spec = {"Deadline": deadline_s * NANOSECONDS_PER_S, "IgnoreSystemJobs": False}
        self._drain(node_id, {"DrainSpec": spec, "MarkEligible": False})

    def accept_work(self, node_id: str) -> None:
        """Ends a drain, if there is one, and lets Nomad place work on the node."""
        self._drain(node_id, {"DrainSpec": None, "MarkEligible": True})

    def purge(self, node_id: str) -> None:
        """Removes a node from the cluster."""
        self._http.put(f"/v1/node/{node_id}/purge").raise_for_status()

    def force_leave(self, server: str) -> None:
        """Removes a failed server ("server-0.global") from the list of members."""
        parameters = {"node": server, "prune": "true"}
        self._http.put("/v1/agent/force-leave", params=parameters).raise_for_status()

    def watch_node(self, node_id: str, index: int, wait_s: int) -> tuple[list[str], int]:
        """(names of the node's allocations that have not ended, index): returns on a change since
        `index`, or after `wait_s`."""
        response = self._watch(f"/v1/node/{node_id}/allocations", index, wait_s)
        names = sorted(
            str(item["Name"]) for item in response.json() if item["ClientStatus"] not in ENDED
        )
        return names, int(response.headers.get("X-Nomad-Index", 0))

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that should run; Nomad also lists stopped ones for hours."""
        return [job for job in self._list("/v1/jobs", meta="true") if not job["Stop"]]

    def wanted(self, job: Mapping[str, Any]) -> int:
        """How many allocations the job should have, of its one group."""
        (group,) = self._get(f"/v1/job/{job['ID']}/scale").json()["TaskGroups"].values()
        return int(group["Desired"])

    def scaling_of(self, job_id: str) -> dict[str, Any]:
        """The wanted count of each of the job's groups, and its latest changes."""
        found: dict[str, Any] = self._get(f"/v1/job/{quote(job_id, safe='')}/scale").json()
        return found

    def allocations(self) -> list[dict[str, Any]]:
        return self._list("/v1/allocations", resources="true")

    def allocations_of(self, job_id: str) -> list[dict[str, Any]]:
        """Newest first; of those placed together, which may be the members of one replica, that
        with the lowest number."""
        found = self._list(f"/v1/job/{job_id}/allocations")
        return sorted(found, key=lambda each: (-int(each["CreateIndex"]), natural(each["Name"])))

    def allocation(self, allocation_id: str) -> dict[str, Any]:
        allocation: dict[str, Any] = self._get(f"/v1/allocation/{allocation_id}").json()
        return allocation

    def remove_job(self, job_id: str) -> None:
        """Stops and purges a job, without the delay that lets the gateway move traffic away.

        Only where the agents end as well: if such removals follow each other quickly, a client may
        miss all but the first (nomad issue 28242).
        """
        path = f"/v1/job/{job_id}"
        parameters = {"purge": "true", "no_shutdown_delay": "true"}
        self._http.delete(path, params=parameters).raise_for_status()

    def watch_running(self, index: int, wait_s: int) -> tuple[int, int]:
        """(allocations not ended, index): returns on a change since `index`, or after `wait_s`."""
        response = self._watch("/v1/allocations", index, wait_s)
        running = sum(item["ClientStatus"] not in ENDED for item in response.json())
        return running, int(response.headers.get("X-Nomad-Index", 0))

    def reaches(self, node_id: str) -> bool:
        """Whether the servers can ask the node's client; a restored state may list one as ready
        that has not reported yet."""
        path, parameters = "/v1/client/stats", {"node_id": node_id}
        return self._http.get(path, params=parameters).is_success

    def end_runs(self, periodic_job: str) -> None:
        """Stops the runs of a periodic job that have not ended."""
        for job in self.jobs():
            if job["ID"].startswith(f"{periodic_job}/") and job["Status"] != "dead":
                path = f"/v1/job/{quote(job['ID'], safe='')}"
                self._http.delete(path).raise_for_status()

    def run_now(self, periodic_job: str) -> str:
        """Starts a run of a periodic job; returns the ID of the run's own job."""
        started = self._http.put(f"/v1/job/{periodic_job}/periodic/force").raise_for_status()
        evaluation = self._get(f"/v1/evaluation/{started.json()['EvalID']}").json()
        return str(evaluation["JobID"])

    def watch_job(self, job_id: str, index: int, wait_s: int) -> tuple[list[dict[str, Any]], int]:
        """(allocations of the job, index): returns on a change since `index`, or after `wait_s`."""
        response = self._watch(f"/v1/job/{quote(job_id, safe='')}/allocations", index, wait_s)
        return response.json(), int(response.headers.get("X-Nomad-Index", 0))

    def log(
        self, allocation_id: str, task: str, stream: str, *, follow: bool, offset: int = 0
    ) -> Iterator[bytes]:
        """A task's output from the byte `offset` on; with `follow`, also future output."""
        parameters = {
            "task": task,
            "type": stream,
            "plain": "true",
            "follow": str(follow).lower(),
            "offset": str(offset),
        }
        path = f"/v1/client/fs/logs/{allocation_id}"
        timeout = httpx.Timeout(TIMEOUT_S, read=None if follow else TIMEOUT_S)
        with self._http.stream("GET", path, params=parameters, timeout=timeout) as response:
            response.raise_for_status()
            yield from response.iter_bytes()

    def _watch(self, path: str, index: int, wait_s: int) -> httpx.Response:
        parameters = {"index": str(index), "wait": f"{wait_s}s"}
        response = self._http.get(path, params=parameters, timeout=wait_s + TIMEOUT_S)
        return response.raise_for_status()

    def _drain(self, node_id: str, request: Mapping[str, Any]) -> None:
        self._http.post(f"/v1/node/{node_id}/drain", json=request).raise_for_status()

    def _list(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(path, parameters).json()
        return found

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> httpx.Response:
        return self._http.get(path, params=parameters or {}).raise_for_status()


def natural(name: str) -> tuple[int, str]:
    """Orders the names of a job's allocations by their numbers."""
    return len(name), name


def newest_by_name(nodes: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Nomad keeps the entry of a machine that lost its data for a while beside its newer one."""
    oldest_first = sorted(nodes, key=lambda node: (node["Status"] == "ready", node["CreateIndex"]))
    return {str(node["Name"]): node for node in oldest_first}


def cluster_answers(environment: Environment, applied: Applied | None) -> bool:
    """Whether the environment's Nomad runs and has a leader."""
    if applied is None:
        return False
    with Nomad.of(environment, applied) as nomad:
        return nomad.has_leader()


def allocations_now(
    environment: Environment, applied: Applied | None
) -> list[dict[str, Any]] | None:
    """None if the cluster does not answer, or does not accept this environment's token yet (after
    an interrupted `up`)."""
    if applied is None:
        return None
    with Nomad.of(environment, applied) as nomad:
        try:
            return nomad.allocations() if nomad.has_leader() else None
        except httpx.HTTPError:
            return None
