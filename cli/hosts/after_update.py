"""Hosts that were missing from an update."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from cli.clusters.both import Clusters, clusters
from cli.hosts.cluster_view import view_of
from cli.hosts.document import host_rows
from cli.hosts.troubles import Fixes, Trouble, silent_clusters, troubles
from cli.progress import telling
from slipway.plan.platform import PlatformPlan

SETTLING_S = 10.0  # until the clusters hear agents that the update has restarted
POLL_S = 1.0
# Nomad's leader looks once a minute for servers that it has missed, and tries each for 10 s.
QUORUM_S = 90.0
ALIVE = "alive"


def lasting_troubles(
    plan: PlatformPlan, credentials: Path, fixes: Fixes, *, settling_s: float = SETTLING_S
) -> list[Trouble]:
    """The troubles of the plan's hosts, as the clusters see them, and of a cluster that does not
    answer; `credentials` are the operator's. New servers are waited for until they are in Nomad's
    quorum: before, the platform would not survive the loss of another one."""
    with clusters(plan, credentials) as both:
        wait_for_quorum(plan, both)
        deadline_s = time.monotonic() + settling_s
        while True:
            view = view_of(both)
            found = [
                *silent_clusters(plan.environment, view.unreachable),
                *troubles(plan.environment, host_rows(plan, view, {}), fixes),
            ]
            absent = any(trouble.absent for trouble in found)
            if not absent or time.monotonic() > deadline_s:
                return found
            time.sleep(POLL_S)


def wait_for_quorum(plan: PlatformPlan, both: Clusters, *, within_s: float = QUORUM_S) -> None:
    """Until every living server of several is in Nomad's quorum. Never raises: what does not answer
    is a trouble of its own."""
    if len(plan.servers) == 1:
        return
    deadline_s, waiting = time.monotonic() + within_s, set[str]()
    with telling(lambda: f"waiting for {', '.join(sorted(waiting))} in Nomad's quorum"):
        while True:
            try:
                waiting = _outside_quorum(plan, both)
            except httpx.HTTPError:
                return
            if not waiting or time.monotonic() > deadline_s:
                return
            time.sleep(POLL_S)


def _outside_quorum(plan: PlatformPlan, both: Clusters) -> set[str]:
    voters = both.nomad.voters()
    return {
        server.name
        for server in plan.servers
        if server.name not in voters
        and any(each["Status"] == ALIVE for each in both.nomad.servers_named(server.name))
    }
