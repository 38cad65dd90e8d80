"""How full pools are: nodes needed at the models' minimum, maximum and declared load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from slipway.plan.figures import Refusal
from slipway.planner.supply.supply import Supply

from .choice import refusal
from .option import Option
from .packing import pool_placement
from .placed import Count, Placed, at_load, at_maximum, at_minimum, in_use


def nodes_for(supply: Supply, models: Iterable[Placed], replicas: Count) -> int:
    """The nodes needed for these replicas, packed by best-fit decreasing.

    A replica over several nodes takes as many devices on each: more than half of a node's, so no
    node holds two of its parts.
    """
    size = supply.accelerators_per_node
    nodes, parts = 0, Counter[int]()
    for model in models:
        layout = model.option.layout
        parts[layout.devices_on_each_node(size)] += layout.nodes(size) * replicas(model)
    shared = Counter[int]()  # free devices -> nodes with that many
    for part in sorted(parts.elements(), reverse=True):
        room = min((free for free, count in shared.items() if count and free >= part), default=None)
        if room is None:
            nodes, room = nodes + 1, size
        else:
            shared[room] -= 1
        shared[room - part] += 1
    return nodes


def assign(
    options: Sequence[Option],
    refused: Sequence[Refusal],
    others: Sequence[Placed],
    *,
    gateway_pool: str,
) -> Placed | tuple[Refusal, ...]:
    """The first option whose pool has room beside the others, or every refusal if none has.

    Room means room for the replicas of the declared load or, if no pool has that, for the minimum.
    A pool of processors needs room for every maximum. Where it is the only one, that is checked
    once every model has a pool, so that all models without room are reported together.
    """
    full: dict[str, Refusal] = {}
    for replicas in (at_load, at_minimum):
        for option in options:
            new = Placed(option=option, refused=())
            missing = None
            if option.supply.accelerator is not None:
                missing = _no_room(new, others, replicas)
            elif len(options) > 1:
                missing = _no_room_on_processors(new, others, gateway_pool)
            if missing is None:
                rest = [each for each in options if each is not option]
                beaten = [full.get(each.supply.pool) or refusal(each, option) for each in rest]
                return Placed(option=option, refused=(*refused, *beaten))
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
    return f"{replicas(new)} replicas{shared} need {need} nodes, but the pool has at most {have}"


def _no_room_on_processors(new: Placed, others: Sequence[Placed], gateway_pool: str) -> str | None:
    supply = new.option.supply
    placement = pool_placement(supply, [*others, new], holds_gateway=supply.pool == gateway_pool)
    unplaced = sum(placement.unplaced.values())
    if not unplaced:
        return None
    return f"{unplaced} replicas do not fit beside the models already there"


def crowded_warnings(supply: Supply, placed: Iterable[Placed]) -> Iterator[str]:
    """Warns of pools that hold all minimums, but not the declared loads or all maximums."""
    models = in_use(supply, placed)
    for what, replicas in (("the declared loads", at_load), ("all maximums together", at_maximum)):
        nodes = nodes_for(supply, models, replicas)
        if nodes > supply.nodes_max:
            most = supply.nodes_max
            yield f"pool {supply.pool}: {what} need {nodes} nodes; it has at most {most}"
            return


def devices(models: Iterable[Placed], replicas: Count) -> int:
    return sum(each.option.layout.devices * replicas(each) for each in models)
