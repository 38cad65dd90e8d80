"""A plan as tables for people: what runs where, how large it is, and whether it fits."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipway.plan.platform import PlatformPlan, Pool

_MIB = 2**20
_GIB = 2**30


def plan_table(plan: PlatformPlan) -> RenderableType:
    """Pools, models and the gateway of a plan. Prints nothing itself."""
    gateway = Text(
        f"gateway  http://{plan.gateway.address}:{plan.gateway.port}  (OpenAI HTTP, Triton gRPC)"
    )
    return Group(_pools(plan), _models(plan), gateway)


def _pools(plan: PlatformPlan) -> Table:
    table = _table(f"{plan.environment}: pools")
    for heading in ("pool", "nodes"):
        table.add_column(heading)
    table.add_column("addresses", no_wrap=True)
    for heading in ("memory/node", "cpu/node", "reserved"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pool in plan.pools:
        table.add_row(
            pool.name,
            f"{len(pool.nodes)} {pool.kind}",
            _addresses(pool),
            _size(pool.memory_bytes),
            f"{pool.cpu_mhz} MHz",
            f"{_reserved_percent(plan, pool)} %",
        )
    return table


def _models(plan: PlatformPlan) -> Table:
    table = _table(f"{plan.environment}: models")
    table.add_column("model", overflow="fold")
    for heading in ("replicas", "weights", "KV cache", "KV tokens", "a replica", "room for"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in plan.models:
        memory, scaling = model.memory, model.scaling
        table.add_row(
            model.name,
            f"{scaling.min_replicas}-{scaling.max_replicas} {model.pool}",
            _size(memory.weights_bytes),
            _size(memory.kv_cache_bytes),
            f"{memory.kv_tokens:,}",
            _size(model.replica.memory_bytes),
            # A plan holds only what fits at its maximum; this is the room beside it, where the
            # replicas of a changed spec start.
            f"{model.surge_replicas} more" if model.surge_replicas else "none",
        )
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _reserved_percent(plan: PlatformPlan, pool: Pool) -> int:
    reserved = sum(
        model.replica.memory_bytes * model.scaling.max_replicas
        for model in plan.models
        if model.pool == pool.name
    )
    return round(100 * reserved / (pool.memory_bytes * len(pool.nodes)))


def _addresses(pool: Pool) -> str:
    first, last = pool.nodes[0].address, pool.nodes[-1].address
    return first if first == last else f"{first}-{last.rpartition('.')[2]}"


def _size(size_bytes: int) -> str:
    if size_bytes < _GIB:
        return f"{size_bytes / _MIB:.0f} MiB"
    return f"{size_bytes / _GIB:.1f} GiB"
