"""The state of all parts of the platform as one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import httpx

from cli.applied import Applied
from cli.clusters import gateway, prometheus
from cli.clusters.groups import groups, members_of, serving_allocations
from cli.clusters.nomad import Nomad
from cli.environment import Environment
from cli.hosts.cluster_view import ClusterView
from cli.hosts.document import applied_rows
from cli.hosts.not_passed import not_passed
from cli.hosts.troubles import Fixes, Trouble, troubles

JsonList = Sequence[Mapping[str, Any]]

SCHEMA_VERSION = 1
# The services under which Prometheus finds Envoy's statistics: this version's and the one before.
ENVOY_METRICS = ("envoy-metrics", "envoy-admin")


def take_snapshot(environment: Environment, applied: Applied, fixes: Fixes) -> dict[str, Any]:
    """The document of `slipway status --json`. `fixes` are the commands that mend a host of this
    environment.

    A part that does not answer leaves its list empty and its reason in `unreachable`.
    """
    unreachable: dict[str, str] = {}

    def ask(part: str, question: Callable[[], Any], otherwise: Any) -> Any:
        if part in unreachable:
            return otherwise
        try:
            return question()
        except httpx.HTTPError as error:
            unreachable[part] = str(error) or type(error).__name__
            return otherwise

    with Nomad.of(environment, applied) as nomad:
        nodes = ask("nomad", nomad.nodes, [])
        servers = ask("nomad", nomad.server_members, [])
        jobs = ask("nomad", nomad.jobs, [])
        of_groups = [job for job in jobs if members_of(job) > 1]
        wanted = ask("nomad", lambda: [nomad.wanted(job) for job in of_groups], [])
        allocations = ask("nomad", nomad.allocations, [])
        fabrics = ask("nomad", lambda: not_passed(nomad), {})
    view = ClusterView(
        consul_members=None, nomad_servers=servers, nomad_nodes=nodes, fabrics=fabrics
    )
    states = ask("xds", lambda: gateway.control_plane(applied)["models"], {})
    endpoints = ask("envoy", lambda: gateway.endpoints(applied), [])
    targets = ask("prometheus", lambda: prometheus.targets(applied), [])
    serving = serving_allocations(allocations, nodes, _healthy(endpoints))
    known = None if "envoy" in unreachable else serving
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": applied.environment,
        "running": "nomad" not in unreachable,
        "gateway": applied.gateway,
        "models": {model.name: _model(model.name, states) for model in applied.models},
        "nodes": sorted((_node(node) for node in nodes), key=lambda node: node["name"]),
        "jobs": sorted((_job(job) for job in jobs), key=lambda job: job["id"]),
        "replicas": _replicas(allocations),
        "groups": _groups(of_groups, wanted, allocations, known),
        "endpoints": [
            {
                "cluster": endpoint.cluster,
                "address": endpoint.address,
                "healthy": endpoint.healthy,
                "active_requests": endpoint.active_requests,
            }
            for endpoint in endpoints
        ],
        "targets": [
            {"service": t.service, "address": t.address, "up": t.up, "error": t.error}
            for t in targets
        ],
        "troubles": [
            trouble.document
            for trouble in _troubles(applied, view, fixes)
            if "nomad" not in unreachable
        ],
        "autoscaler_blind": _blind(targets, unreachable, envoys=applied.envoys),
        "unreachable": unreachable,
    }


def _troubles(applied: Applied, view: ClusterView, fixes: Fixes) -> list[Trouble]:
    return troubles(applied.environment, applied_rows(applied, view), fixes)


def _blind(
    targets: Iterable[prometheus.Target], unreachable: Mapping[str, str], *, envoys: int
) -> str:
    """Why the autoscaler cannot see the load and keeps every count; "" if it can. It
    needs the statistics of `envoys` Envoys (components/autoscaling/policy.py)."""
    if reason := unreachable.get("prometheus"):
        return f"Prometheus does not answer: {reason}"
    found = [target for target in targets if target.service in ENVOY_METRICS]
    failing = [f"{envoy.address}: {envoy.error}" for envoy in found if not envoy.up]
    if len(found) - len(failing) >= envoys:
        return ""
    missing = [f"{len(found)} of {envoys} Envoys are in Consul"] if len(found) < envoys else []
    return f"Prometheus cannot read Envoy's statistics: {'; '.join([*missing, *failing])}"


def _model(name: str, states: dict[str, Any]) -> dict[str, Any]:
    state = states.get(name) or {}
    return {"ready": bool(state.get("ready")), "acknowledged": bool(state.get("acknowledged"))}


def _node(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": node["Name"],
        "pool": node["NodePool"],
        "address": node["Address"],
        "status": node["Status"],
        "eligible": node["SchedulingEligibility"] == "eligible",
    }


def _job(job: dict[str, Any]) -> dict[str, Any]:
    """`running` and `waiting` count allocations over all groups."""
    groups = ((job.get("JobSummary") or {}).get("Summary") or {}).values()
    return {
        "id": job["ID"],
        "status": job["Status"],
        "running": sum(group["Running"] for group in groups),
        "waiting": sum(group["Starting"] + group["Queued"] for group in groups),
    }


def _replicas(allocations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Allocations that should run or have not ended yet, by job and name."""
    found = [
        {
            "job": allocation["JobID"],
            "name": allocation["Name"],
            "node": allocation["NodeName"],
            "allocation": allocation["ID"],
            "status": allocation["ClientStatus"],
            "restarts": max(
                (task["Restarts"] for task in (allocation.get("TaskStates") or {}).values()),
                default=0,
            ),
            "said": _newest_event(allocation),
        }
        for allocation in allocations
        if allocation["DesiredStatus"] == "run" or allocation["ClientStatus"] == "running"
    ]
    return sorted(found, key=lambda replica: (replica["job"], replica["name"]))


def _healthy(endpoints: Iterable[gateway.Endpoint]) -> set[str]:
    return {endpoint.address for endpoint in endpoints if endpoint.healthy}


def _groups(
    jobs: JsonList, wanted: Sequence[int], allocations: JsonList, serving: set[str] | None
) -> list[dict[str, Any]]:
    """The replicas over several hosts, by job and number."""
    staying = [each for each in allocations if each["DesiredStatus"] == "run"]
    by_id = sorted(zip(jobs, wanted, strict=False), key=lambda each: str(each[0]["ID"]))
    return [
        group
        for job, count in by_id
        for group in groups(
            job, count, [each for each in staying if each["JobID"] == job["ID"]], serving
        )
    ]


def _newest_event(allocation: dict[str, Any]) -> str:
    tasks = (allocation.get("TaskStates") or {}).values()
    events = [event for task in tasks for event in task.get("Events") or []]
    newest = max(events, key=lambda event: event["Time"], default=None)
    return str(newest["DisplayMessage"]) if newest else ""
