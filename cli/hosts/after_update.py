"""Hosts that were missing from an update."""

from __future__ import annotations

import time
from pathlib import Path

from cli.clusters.both import clusters
from cli.hosts.cluster_view import view_of
from cli.hosts.document import host_rows
from cli.hosts.troubles import Fixes, Trouble, silent_clusters, troubles
from slipway.plan.platform import PlatformPlan

SETTLING_S = 10.0  # until the clusters hear agents that the update has restarted
POLL_S = 1.0


def lasting_troubles(
    plan: PlatformPlan, credentials: Path, fixes: Fixes, *, settling_s: float = SETTLING_S
) -> list[Trouble]:
    """The troubles of the plan's hosts, as the clusters see them, and of a cluster that does not
    answer; `credentials` are the operator's."""
    deadline_s = time.monotonic() + settling_s
    with clusters(plan, credentials) as both:
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
