"""Which pool has room for a model beside the others, and which are crowded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slipway.plan.figures import Layout, Refusal
from slipway.planner.supply.supply import MHZ_PER_CORE, Supply
from slipway.planner.units import GIB
from slipway.planner.wording import counted

from .choice import meets_as_well, refusal
from .layouts import describe_layout
from .option import Option
from .packing import needs, pack, pool_placement
from .placed import Count, Placed, at_load, at_maximum, at_minimum, in_use

Full = dict[str, dict[Layout, str]]  # pool -> layout -> why there is no room for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """`best` is one option of every pool that can hold the model, `every` gives those of all its
    layouts, both best first; `refused` are the other pools."""

    best: Sequence[Option]
    every: Callable[[], Sequence[Option]]
    refused: Sequence[Refusal]


def assign(choices: Choices, others: Sequence[Placed]) -> Placed | tuple[Refusal, ...]:
    """The first option whose pool has room beside the others, or every refusal if none has.

    Room means room for the replicas of the declared load or, if nothing has that, for the minimum;
    a layout that is further from the goal than the best one of its pool is only tried then.
    A pool of processors needs room for every maximum. Where it is the only one, that is checked
    once every model has a pool, so that all models without room are reported together.
    """
    pools = {option.supply.pool: option for option in choices.best}

    def missing(option: Option, replicas: Count) -> str | None:
        new = Placed(option=option, refused=())
        if option.supply.accelerator is not None:
            return _no_room(new, others, replicas)
        return _no_room_on_processors(new, others) if len(pools) > 1 else None

    options = choices.best
    if options and missing(options[0], at_load):
        options = choices.every()
    full: Full = defaultdict(dict)
    for replicas in (at_load, at_minimum):
        for option in options:
            pool = option.supply.pool
            if replicas is at_load and not meets_as_well(option, pools[pool]):
                continue
            reason = missing(option, replicas)
            if reason is None:
                return Placed(
                    option=option,
                    refused=(*choices.refused, *_beaten(option, pools, full)),
                    without_room=tuple(_better_without_room(option, options, full)),
                )
            full[pool][option.layout] = reason
    return (*choices.refused, *(_refusal(pool, reasons) for pool, reasons in full.items()))


def _beaten(chosen: Option, best: Mapping[str, Option], full: Full) -> Iterator[Refusal]:
    """For each pool that was not chosen, the reason."""
    for pool, option in best.items():
        if pool != chosen.supply.pool:
            yield _refusal(pool, full[pool]) if pool in full else refusal(option, chosen)


def _better_without_room(chosen: Option, options: Sequence[Option], full: Full) -> Iterator[str]:
    for option in options:
        if option is chosen:
            return
        if option.supply is chosen.supply:
            yield full[option.supply.pool][option.layout]


def _refusal(pool: str, reasons: Mapping[Layout, str]) -> Refusal:
    return Refusal(pool=pool, reasons=tuple(reasons.values()))


def _no_room(new: Placed, others: Iterable[Placed], replicas: Count) -> str | None:
    option, supply = new.option, new.option.supply
    beside = in_use(supply, others)
    packed, have = pack(supply, [*beside, new], replicas), supply.nodes_max
    names = ", ".join(each.demand.model for each in beside)
    shared = f" with {names}" if names else ""
    wanted = f"{describe_layout(option.layout)}: {counted(replicas(new), 'replica')}{shared}"
    if packed.unplaced:
        return f"{wanted}: {counted(packed.unplaced, 'replica')} would not fit: {_room(new)}"
    if packed.nodes > have:
        return (
            f"{wanted} would take {counted(packed.nodes, 'node')}, but the pool has at most {have}"
        )
    return None


def _room(placed: Placed) -> str:
    """What a replica takes of a node, and what a node has, where not only devices are short."""
    need, supply = needs(placed), placed.option.supply
    return (
        f"each of {placed.demand.model} needs {counted(need.devices, 'device')},"
        f" {need.memory_bytes / GIB:.1f} GiB and {need.cpu_mhz // MHZ_PER_CORE} cores of a host,"
        f" which has {counted(supply.accelerators_per_node, 'device')},"
        f" {supply.node_memory_bytes / GIB:.1f} GiB and {supply.node_cpu_mhz // MHZ_PER_CORE} cores"
        f"{' (less where the gateway runs)' if supply.holds_gateway else ''}"
    )


def _no_room_on_processors(new: Placed, others: Sequence[Placed]) -> str | None:
    placement = pool_placement(new.option.supply, [*others, new])
    unplaced = sum(placement.unplaced.values())
    if not unplaced:
        return None
    return f"no room for {counted(unplaced, 'replica')} beside the models already there"


def crowded_warnings(supply: Supply, placed: Iterable[Placed]) -> Iterator[str]:
    """Warns of pools that hold all minimums, but not the declared loads or all maximums."""
    models = in_use(supply, placed)
    for what, replicas in (("the declared loads", at_load), ("all maximums together", at_maximum)):
        packed, most = pack(supply, models, replicas), supply.nodes_max
        if packed.unplaced:
            yield (
                f"pool {supply.pool}: for {what} its hosts lack memory or cores for"
                f" {counted(packed.unplaced, 'replica')}"
            )
            return
        if packed.nodes > most:
            yield f"pool {supply.pool}: {what} need {packed.nodes} nodes; it has at most {most}"
            return
