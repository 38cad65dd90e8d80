"""A plan as tables for people: what runs where, how large it is, and whether it fits."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipway.plan.platform import ModelPlan, PlatformPlan, Pool

_MIB = 2**20
_GIB = 2**30


def plan_table(plan: PlatformPlan) -> RenderableType:
    """Pools, models and the gateway of a plan. Prints nothing itself."""
    gateway = Text(
        f"gateway  http://{plan.gateway.address}:{plan.gateway.port}  (OpenAI HTTP, Triton gRPC)"
    )
    return Group(_pools(plan), _models(plan), gateway)


def _pools(plan: PlatformPlan) -> Table:
    table = Table(title=f"{plan.environment}: pools", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("pool", "kind", "nodes", "addresses"):
        table.add_column(heading)
    for heading in ("memory/node", "cpu/node", "reserved at max"):
        table.add_column(heading, justify="right")
    for pool in plan.pools:
        table.add_row(
            pool.name,
            pool.kind,
            str(len(pool.nodes)),
            _addresses(pool),
            _size(pool.memory_bytes),
            f"{pool.cpu_mhz} MHz",
            f"{_reserved_percent(plan, pool)} %",
        )
    return table


def _models(plan: PlatformPlan) -> Table:
    table = Table(title=f"{plan.environment}: models", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("model", "pool", "replicas"):
        table.add_column(heading)
    for heading in ("weights", "KV cache", "KV tokens", "memory/replica"):
        table.add_column(heading, justify="right")
    table.add_column("fit at max")
    table.add_column("job")
    for model in plan.models:
        memory, scaling = model.memory, model.scaling
        table.add_row(
            model.name,
            model.pool,
            f"{scaling.min_replicas}-{scaling.max_replicas}",
            _size(memory.weights_bytes),
            _size(memory.kv_cache_bytes),
            f"{memory.kv_tokens:,}",
            _size(model.replica.memory_bytes),
            _fit(model),
            model.job_id,
        )
    return table


def _fit(model: ModelPlan) -> str:
    """A plan holds only what fits; what differs is the room beside it."""
    maximum, spare = model.scaling.max_replicas, model.surge_replicas
    if spare >= maximum:
        return f"{maximum} fit, and as many beside them"
    return f"{maximum} fit, {spare} more beside them"


def _reserved_percent(plan: PlatformPlan, pool: Pool) -> int:
    reserved = sum(
        model.replica.memory_bytes * model.scaling.max_replicas
        for model in plan.models
        if model.pool == pool.name
    )
    return round(100 * reserved / (pool.memory_bytes * len(pool.nodes)))


def _addresses(pool: Pool) -> str:
    first, last = pool.nodes[0].address, pool.nodes[-1].address
    return first if first == last else f"{first} to {last}"


def _size(size_bytes: int) -> str:
    if size_bytes < _GIB:
        return f"{size_bytes / _MIB:.0f} MiB"
    return f"{size_bytes / _GIB:.1f} GiB"
