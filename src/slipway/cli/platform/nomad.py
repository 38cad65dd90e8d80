"""The few calls of Nomad's HTTP API that commands need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx

from slipway.cli.applied import Applied
from slipway.cli.certificates import platform
from slipway.cli.environment import Environment

TIMEOUT_S = 10.0
ENDED = frozenset({"complete", "failed", "lost"})


class Nomad:
    """A server's API with the environment's management token and the operator's certificate.

    Methods raise httpx.HTTPError (`errors.explained` knows it).
    """

    def __init__(self, address: str, token: str | None, operator: Path) -> None:
        self._http = httpx.Client(
            base_url=address,
            headers={"X-Nomad-Token": token} if token else {},
            timeout=TIMEOUT_S,
            trust_env=False,  # the user's proxy must not see loopback requests
            verify=platform(operator),
        )

    @classmethod
    def of(cls, environment: Environment, applied: Applied) -> Self:
        return cls(applied.nomad, environment.token("nomad"), applied.operator)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def has_leader(self) -> bool:
        """Whether the cluster answers; never raises."""
        try:
            response = self._http.get("/v1/status/leader", timeout=2)
            return response.is_success and bool(response.json())
        except httpx.HTTPError:
            return False

    def nodes(self) -> list[dict[str, Any]]:
        return self._list("/v1/nodes")

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that should run; Nomad also lists stopped ones for hours."""
        return [job for job in self._list("/v1/jobs", meta="true") if not job["Stop"]]

    def allocations(self) -> list[dict[str, Any]]:
        return self._list("/v1/allocations", resources="true")

    def allocations_of(self, job_id: str) -> list[dict[str, Any]]:
        """Newest first."""
        found = self._list(f"/v1/job/{job_id}/allocations")
        return sorted(found, key=lambda allocation: -int(allocation["CreateIndex"]))

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
        response = self._http.get(
            "/v1/allocations",
            params={"index": str(index), "wait": f"{wait_s}s"},
            timeout=wait_s + TIMEOUT_S,
        )
        response.raise_for_status()
        running = sum(item["ClientStatus"] not in ENDED for item in response.json())
        return running, int(response.headers.get("X-Nomad-Index", 0))

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

    def _list(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(path, parameters).json()
        return found

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> httpx.Response:
        return self._http.get(path, params=parameters or {}).raise_for_status()


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
