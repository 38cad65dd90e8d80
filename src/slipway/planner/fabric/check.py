"""The check of a pool's hosts before they take members of groups."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.config.artifacts import Artifacts
from slipway.config.catalog import Catalog, FabricLimits
from slipway.plan.fabric import RDMA, FabricCheckPlan, Threshold
from slipway.planner.fleet.packing import hosts_of
from slipway.planner.fleet.placed import Placed
from slipway.planner.supply.supply import Supply

STATED = "the pool's `fabric.check`"


def plan_check(
    supply: Supply, placed: Sequence[Placed], catalog: Catalog, artifacts: Artifacts
) -> FabricCheckPlan | None:
    """None for a pool whose models take no groups. `placed` are the pool's.

    A gap, such as a tool that is missing, keeps members off where the fabric is RDMA: a link that
    falls back to half its width is found by nothing else. Over TCP a model runs as fast as it runs.
    """
    if all(hosts_of(each) == 1 for each in placed):
        return None
    rdma = supply.fabric.kind in RDMA
    return FabricCheckPlan(
        bundle=artifacts.bundles["fabric"],
        rate_gbit_per_s=supply.rail_gbps,
        thresholds=_thresholds(supply, catalog.fabric_limits[supply.fabric.kind]),
        gaps_admit=not rdma,
        measures=rdma or supply.fabric_limits is not None,
    )


def _thresholds(supply: Supply, limits: FabricLimits) -> dict[str, Threshold]:
    found = {}
    for name in sorted(FabricLimits.model_fields):
        limit = getattr(limits, name)
        stated = getattr(supply.fabric_limits, name, None)
        found[name] = Threshold(
            value=limit.value if stated is None else stated,
            source=limit.source if stated is None else STATED,
            date=limit.date.isoformat(),
        )
    return found
