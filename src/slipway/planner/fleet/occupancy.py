"""How full the pools are: nodes for replicas, at the models' minimum, maximum and declared load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slipway.plan.capacity import Figure, PoolCapacity, Refusal

from .choice import refusal
from .demand import Demand
from .option import Option
from .supply import Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A model and where it runs."""

    demand: Demand
    option: Option
    refused: tuple[Refusal, ...]


Count = Callable[[Placed], int]


def at_minimum(placed: Placed) -> int:
    return placed.demand.min_replicas


def at_maximum(placed: Placed) -> int:
    return placed.demand.max_replicas


def at_load(placed: Placed) -> int:
    """Replicas that the declared load needs, within the envelope."""
    return placed.option.replicas


def in_use(supply: Supply, placed: Iterable[Placed]) -> list[Placed]:
    return [each for each in placed if each.option.supply is supply]


def pool_capacity(supply: Supply, placed: Iterable[Placed]) -> PoolCapacity:
    """The pool with its models. It costs what its nodes cost at the declared load."""
    models = in_use(supply, placed)
    nodes = max(supply.nodes_min, min(nodes_for(supply, models, at_load), supply.nodes_max))
    node = supply.node_usd_per_hour
    return PoolCapacity(
        pool=supply.pool,
        kind=supply.kind,
        instance=supply.instance,
        accelerator=supply.accelerator_name,
        nodes_min=supply.nodes_min,
        nodes_max=supply.nodes_max,
        accelerators_per_node=supply.accelerators_per_node,
        accelerators_used=_devices(models, at_minimum),
        accelerators_used_at_most=_devices(models, at_maximum),
        market=supply.market,
        usd_per_hour=Figure(
            value=nodes * node.value,
            unit="USD/h",
            basis="declared",
            source=f"{nodes} nodes for the declared load x {node.value:g} USD/h ({node.source})",
        ),
    )


def nodes_for(supply: Supply, models: Iterable[Placed], replicas: Count) -> int:
    """Nodes that hold these replicas: best fit, decreasing.

    A replica larger than a node takes whole nodes, and what is left over shares one.
    """
    size = supply.accelerators_per_node
    nodes, parts = 0, Counter[int]()
    for model in models:
        whole, rest = divmod(model.option.layout.devices, size)
        nodes += whole * replicas(model)
        parts[rest] += replicas(model) if rest else 0
    shared = Counter[int]()  # free devices of a node -> nodes with so many
    for part in sorted(parts.elements(), reverse=True):
        room = min((free for free, count in shared.items() if count and free >= part), default=None)
        if room is None:
            nodes, room = nodes + 1, size
        else:
            shared[room] -= 1
        shared[room - part] += 1
    return nodes


def assign(
    demand: Demand, options: Sequence[Option], refused: Sequence[Refusal], others: Sequence[Placed]
) -> Placed | tuple[Refusal, ...]:
    """The first option whose pool has room beside the others; every refusal where none has.

    Room is needed for the replicas of the declared load; if no pool has that, for the minimum.
    """
    full: dict[str, Refusal] = {}
    for replicas in (at_load, at_minimum):
        for option in options:
            new = Placed(demand=demand, option=option, refused=())
            missing = _no_room(new, others, replicas)
            if missing is None:
                rest = [each for each in options if each is not option]
                beaten = [
                    full.get(each.supply.pool) or refusal(each, option, demand) for each in rest
                ]
                return Placed(demand=demand, option=option, refused=(*refused, *beaten))
            full[option.supply.pool] = Refusal(pool=option.supply.pool, reasons=(missing,))
    return (*refused, *full.values())


def _no_room(new: Placed, others: Iterable[Placed], replicas: Count) -> str | None:
    supply = new.option.supply
    beside = in_use(supply, others)
    need, have = nodes_for(supply, [*beside, new], replicas), supply.nodes_max
    if need <= have:
        return None
    names = ", ".join(each.demand.model for each in beside)
    shared = f" with {names}" if names else ""
    return f"{replicas(new)} replicas{shared} need {need} nodes, the pool has {have} at most"


def crowded_warnings(supply: Supply, placed: Iterable[Placed]) -> Iterator[str]:
    """Pools that hold all minimums, but not what the declared loads or all maximums need."""
    models = in_use(supply, placed)
    for what, replicas in (("the declared loads", at_load), ("all maximums together", at_maximum)):
        nodes = nodes_for(supply, models, replicas)
        if nodes > supply.nodes_max:
            yield f"pool {supply.pool}: {what} need {nodes} nodes of at most {supply.nodes_max}"
            return


def _devices(models: Iterable[Placed], replicas: Count) -> int:
    return sum(each.option.layout.devices * replicas(each) for each in models)
