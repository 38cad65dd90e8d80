"""What would fit where a model does not: a larger pool, other accelerators, other models."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slipway.config.aws import AwsPool, NodeRange
from slipway.config.catalog import Architecture, Catalog
from slipway.config.metal import MetalPool
from slipway.config.settings import BudgetSettings
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.registry import ENGINES
from slipway.planner.fit import Deployment, answer_as_asked
from slipway.planner.fleet.layouts import tensor_layouts
from slipway.planner.hardware import DEVICES_PER_NODE
from slipway.planner.supply.supply import Supply

from .candidates import SHARE, why_not
from .promises import Broken
from .request import RefusedError, Request
from .surroundings import Surroundings

MORE_NODES = (1, 2, 4, 8, 16)
MOST_NAMED = 4  # accelerators, or models, in one sentence
LENGTH = 8192  # tokens that a suggested accelerator surely holds

CostIn = Callable[[Surroundings], float | None]


def what_would_fit(
    request: Request,
    pools: Sequence[Supply],
    surroundings: Surroundings,
    tried: Sequence[Broken],
    *,
    cost_in: CostIn,
) -> RefusedError:
    """`tried` are the reasons against every candidate; `cost_in` is what the environment would cost
    elsewhere (USD/h), None where the model does not fit there either."""
    if tried:
        cause, fix = _cause(tried, surroundings, pools, cost_in)
        instead = "; ".join(_instead(request, pools, surroundings))
        return RefusedError(f"{request.name} does not fit: {cause}", fix=fix or instead)
    why = "; ".join(f"{each.pool}: {why_not(request, each, surroundings.inputs)}" for each in pools)
    return RefusedError(
        f"no pool can hold {request.name}: {why or 'there is none for its engine'}",
        fix="; ".join(_instead(request, pools, surroundings)),
    )


def _cause(
    tried: Sequence[Broken], surroundings: Surroundings, pools: Sequence[Supply], cost_in: CostIn
) -> tuple[str, str]:
    """(what stands in the way, the smallest changes that remove it; "" where none does)"""
    budget = next((each for each in tried if each.over_budget), None)
    if budget is not None and cost_in(_without_budget(surroundings)) is not None:
        return budget.why, budget.fix
    changes = (
        *_fewer_of_others(surroundings, pools, cost_in),
        *itertools.islice(_larger_pools(surroundings, pools, cost_in), 1),
    )
    return tried[0].why, "; or ".join(changes) or tried[0].fix


def accelerators_for(architecture: Architecture, catalog: Catalog) -> Sequence[str]:
    """The smallest hosts that hold one replica of the published weights, as "2 x H200-141"."""
    found: list[tuple[int, str]] = []
    for name, accelerator in catalog.accelerators.items():
        if ENGINES["vllm"].accelerator_problems(name, accelerator):
            continue
        per_node = accelerator.devices_per_node or DEVICES_PER_NODE
        for layout in tensor_layouts(per_node):
            if _fits(architecture, catalog, name, layout, per_node):
                size = layout.tensor * accelerator.memory_mib
                found.append((size, f"{layout.tensor} x {name}"))
                break
    return [text for _, text in sorted(found)]


def _fits(
    architecture: Architecture, catalog: Catalog, name: str, layout: Layout, per_node: int
) -> bool:
    deployment = Deployment(
        accelerator=name,
        layout=layout,
        precision=Precision(weights=architecture.published_weights),
        max_len=min(architecture.context, LENGTH),
        max_num_seqs=1,
        utilization=SHARE,
    )
    return answer_as_asked(architecture, deployment, catalog.accelerators, per_node).feasible


def _instead(
    request: Request, pools: Sequence[Supply], surroundings: Surroundings
) -> Iterator[str]:
    """Other accelerators, other models for the pools, another engine."""
    if request.simulated:
        yield "name a pool without accelerators: a simulated engine runs on processors only"
        return
    holding = accelerators_for(request.weights.architecture, surroundings.inputs.catalog)
    if holding:
        yield f"it would fit on {_some(holding)}"
    else:
        yield "no single host of the catalog's accelerators holds it: split it over several"
        " (docs/groups.md)"
    for supply in pools:
        if held := surroundings.held[supply.pool]:
            yield f"pool {supply.pool} would hold {_some(held)}"
    if any(supply.accelerator is None for supply in surroundings.supplies.values()):
        yield "or add --simulated for an engine without weights"


def _some(names: Sequence[str]) -> str:
    """ "a, b, c or 5 others" """
    few, rest = names[:MOST_NAMED], len(names) - MOST_NAMED
    if rest == 1:
        few = names
    elif rest > 1:
        return f"{', '.join(few)} or {rest} others"
    *others, last = few
    return f"{', '.join(others)} or {last}" if others else last


def _larger_pools(
    surroundings: Surroundings, pools: Sequence[Supply], cost_in: CostIn
) -> Iterator[str]:
    """The least growth of a pool that makes room, the budget put aside."""
    settings = surroundings.inputs.environment.settings
    for more in MORE_NODES:
        for supply in pools:
            grown = _grown(settings.pools[supply.pool], more)
            if grown is None:
                continue
            cost = cost_in(_with_pool(_without_budget(surroundings), supply.pool, grown))
            if cost is None:
                continue
            now, limit = supply.nodes_max, settings.budget.usd_per_hour
            over = limit is not None and cost > limit
            yield (
                f"raise the nodes of pool {supply.pool} from {now} to {now + more}"
                + (f", and slipway:budget.usd_per_hour to {math.ceil(cost)}" if over else "")
            )


def _fewer_of_others(
    surroundings: Surroundings, pools: Sequence[Supply], cost_in: CostIn
) -> Iterator[str]:
    """The models on these processors whose maximum could give way, each alone."""
    models = surroundings.inputs.environment.settings.models
    names = {supply.pool for supply in pools if supply.accelerator is None}
    for name, deployment in models.items():
        least, most = deployment.replicas.min, deployment.replicas.max
        if names.isdisjoint(deployment.candidates) or least == most:
            continue
        fewer = deployment.replicas.model_copy(update={"max": least})
        given = {**models, name: deployment.model_copy(update={"replicas": fewer})}
        if cost_in(_with_settings(surroundings, {"models": given})) is not None:
            source = surroundings.inputs.environment.origin.source
            yield f"lower replicas.max of {name} from {most} to {least} in {source}"


def _grown(pool: Any, more: int) -> Any:
    """The pool with more nodes; None where its hosts are listed one by one."""
    if isinstance(pool, MetalPool) and pool.nodes is not None:
        return pool.model_copy(update={"nodes": pool.nodes + more})
    if isinstance(pool, AwsPool) and isinstance(pool.nodes, NodeRange):
        nodes = pool.nodes.model_copy(update={"max": pool.nodes.max + more})
        quota = None if pool.quota is None else pool.quota + more
        return pool.model_copy(update={"nodes": nodes, "quota": quota})
    return None


def _without_budget(surroundings: Surroundings) -> Surroundings:
    return _with_settings(surroundings, {"budget": BudgetSettings()})


def _with_pool(surroundings: Surroundings, name: str, pool: Any) -> Surroundings:
    pools = {**surroundings.inputs.environment.settings.pools, name: pool}
    return _with_settings(surroundings, {"pools": pools})


def _with_settings(surroundings: Surroundings, changes: Mapping[str, Any]) -> Surroundings:
    inputs = surroundings.inputs
    settings = inputs.environment.settings.model_copy(update=dict(changes))
    environment = replace(inputs.environment, settings=settings)
    return Surroundings(inputs=replace(inputs, environment=environment))
