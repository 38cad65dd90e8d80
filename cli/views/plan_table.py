"""A plan as tables: what runs where, how large it is, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.views.tables import plain_table
from slipway.plan.draft import AnyModel, AnyPlan
from slipway.plan.platform import Pool

_MIB = 2**20
_GIB = 2**30
UNKNOWN = "-"


def plan_table(plan: AnyPlan) -> RenderableType:
    """Pools, models and the gateway of a plan. Prints nothing itself."""
    gateway = Text(f"gateway  {plan.gateway.clients.url}  (OpenAI HTTP, Triton gRPC)")
    return Group(_pools(plan), _models(plan), *_warnings(plan), gateway)


def _pools(plan: AnyPlan) -> Table:
    table = plain_table(f"{plan.environment}: pools")
    for heading in ("pool", "nodes", "addresses"):
        table.add_column(heading, overflow="fold")
    for heading in ("memory/node", "cpu/node", "reserved"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pool in plan.pools:
        table.add_row(
            pool.name,
            f"{pool.nodes_max} {pool.kind}",
            _addresses(pool),
            _size(pool.memory_bytes) if pool.memory_bytes else UNKNOWN,
            f"{pool.cpu_mhz} MHz" if pool.cpu_mhz else UNKNOWN,
            _reserved(plan, pool),
        )
    return table


def _models(plan: AnyPlan) -> Table:
    table = plain_table(f"{plan.environment}: models")
    table.add_column("model", overflow="fold")
    for heading in ("replicas", "weights", "KV cache", "KV tokens", "a replica", "a change"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in plan.models:
        memory, scaling = model.memory, model.scaling
        table.add_row(
            model.name,
            f"{scaling.min_replicas}-{scaling.max_replicas} {model.pool}",
            _size(memory.weights_bytes),
            _size(memory.kv_cache_bytes),
            f"{memory.kv_tokens:,}",
            _on_each_host(model) + _size(model.replica.memory_bytes),
            _change(model),
        )
    return table


def _on_each_host(model: AnyModel) -> str:
    return f"{model.replica.nodes} x " if model.replica.nodes > 1 else ""


def _change(model: AnyModel) -> str:
    """Where the replicas of a changed spec start: in the room beside the old ones, or, with
    `surge: 0`, each in the place of an old replica."""
    if model.surge == 0:
        return "in turn"
    return f"room for {model.surge_replicas}" if model.surge_replicas else "no room"


def _warnings(plan: AnyPlan) -> Iterator[Text]:
    """What an operator should know before a change."""
    for model in plan.models:
        if model.surge == 0 and model.scaling.min_replicas == 1:
            yield Text(
                f"{model.name}: surge: 0 with min 1: no replica serves while a change loads\n"
            )


def _reserved(plan: AnyPlan, pool: Pool) -> str:
    """The share of the pool's memory that its models have at their maximum."""
    if not pool.memory_bytes:
        return UNKNOWN
    reserved = sum(
        model.replica.memory_bytes * model.replica.nodes * model.scaling.max_replicas
        for model in plan.models
        if model.pool == pool.name
    )
    return f"{round(100 * reserved / (pool.memory_bytes * pool.nodes_max))} %"


def _addresses(pool: Pool) -> str:
    addresses = [IPv4Address(host.address) for host in pool.hosts]
    consecutive = all(after == before + 1 for before, after in pairwise(addresses))
    if len(addresses) > 1 and consecutive:
        return f"{addresses[0]}-{str(addresses[-1]).rpartition('.')[2]}"
    return ", ".join(map(str, addresses)) or UNKNOWN


def _size(size_bytes: int) -> str:
    if size_bytes < _GIB:
        return f"{size_bytes / _MIB:.0f} MiB"
    return f"{size_bytes / _GIB:.1f} GiB"
