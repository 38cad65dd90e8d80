"""Whether the weights of a pool's models fit on the disk of each of its hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slipway.config.catalog import Architecture
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.model import Model, RemoteSource
from slipway.planner.quantization import scheme_of, weight_bytes
from slipway.planner.supply.supply import Supply
from slipway.planner.units import GIB

from .placed import Placed, in_use


def store_problems(
    supply: Supply, placed: Iterable[Placed], models: Mapping[str, Model], origin: Origin
) -> Iterator[Problem]:
    """Any host of a pool may come to hold every model of it that hosts fetch, as replicas move."""
    store = supply.model_store
    if store is None:
        return
    sizes = {
        each.demand.model: _published_bytes(each.demand.architecture)
        for each in in_use(supply, placed)
        if isinstance(models[each.demand.model].settings.source, RemoteSource)
    }
    needed = sum(sizes.values())
    if needed <= store.size_bytes:
        return
    listed = ", ".join(f"{name} {_gib(size)}" for name, size in sorted(sizes.items()))
    yield origin.problem(
        ("pools", supply.pool, "model_store", "size"),
        f"is less than the weights of the pool's models, {_gib(needed)} in all: {listed}",
        value=_gib(store.size_bytes),
        fix="give the pool a larger store, or move models to another pool",
    )


def _published_bytes(architecture: Architecture) -> int:
    stated = architecture.published_bytes
    if stated is not None:
        return stated.size_bytes
    return weight_bytes(architecture, scheme_of(architecture, architecture.published_weights))


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
