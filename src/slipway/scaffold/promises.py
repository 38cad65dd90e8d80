"""What a plan with one more model must keep: the goal, the room of its pool, the budget.

The policies judge the same, and more, before anything is written (policies/rules); these are the
ones that another candidate may keep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from slipway.plan.draft import ModelDraft, PlatformDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A promise that does not hold: why, and the change that would make it hold, "" where that is
    not known. `replicas` is how many the load needs, where that is why, and `full_pool` the pool
    without room."""

    why: str
    fix: str = ""
    replicas: int = 0
    full_pool: str = ""
    over_budget: bool = False


def broken_promises(
    draft: PlatformDraft, name: str, before_usd_per_hour: float
) -> Iterator[Broken]:
    """Those that the model of this name breaks."""
    model = next(each for each in draft.models if each.name == name)
    yield from _of_the_goal(model)
    yield from _of_the_pools(draft)
    yield from _of_the_budget(draft, before_usd_per_hour)


def _of_the_goal(model: ModelDraft) -> Iterator[Broken]:
    if not model.accelerator:
        return
    needed, most = model.replicas_needed.value, model.scaling.max_replicas
    if needed > most:
        yield Broken(
            why=f"needs {math.ceil(needed)} replicas for its load, and may have {most}",
            fix=f"allow {math.ceil(needed)} replicas, or lower the load",
            replicas=math.ceil(needed),
        )
    elif model.meets_goal is False and model.serving is not None:
        ttft, tpot = model.serving.ttft_ms.value, model.serving.tpot_ms.value
        yield Broken(
            why=f"misses its goal on pool {model.pool}: a first token takes {ttft:.0f} ms and each"
            f" further one {tpot:.0f} ms",
            fix="relax --ttft-p95-ms and --tpot-p95-ms, lower the load, or name a faster pool",
        )


def _of_the_pools(draft: PlatformDraft) -> Iterator[Broken]:
    for pool in draft.pools:
        nodes = pool.range.max if pool.range else len(pool.hosts)
        room = nodes * pool.accelerators_per_node
        if pool.accelerator and pool.accelerators_used_at_most > room:
            needed = math.ceil(pool.accelerators_used_at_most / pool.accelerators_per_node)
            yield Broken(
                why=f"pool {pool.name} has {room} devices, and its models may then ask for"
                f" {pool.accelerators_used_at_most}",
                fix=f"raise the nodes of pool {pool.name} from {nodes} to {needed}",
                full_pool=pool.name,
            )


def _of_the_budget(draft: PlatformDraft, before: float) -> Iterator[Broken]:
    budget, cost = draft.budget, draft.cost.usd_per_hour.value
    for key, value, limit in (
        ("usd_per_hour", cost, budget.usd_per_hour),
        ("usd_per_hour_at_most", draft.usd_per_hour_at_most, budget.usd_per_hour_at_most),
        (
            "usd_per_hour_per_change",
            cost - before if before else 0.0,
            budget.usd_per_hour_per_change,
        ),
    ):
        if limit is not None and value > limit:
            what = "it would add" if key.endswith("change") else "the environment would cost"
            yield Broken(
                why=f"{what} {value:.2f} USD/h, and slipway:budget.{key} is {limit:g}",
                fix=f"have slipway:budget.{key} raised to {math.ceil(value)}",
                over_budget=True,
            )
