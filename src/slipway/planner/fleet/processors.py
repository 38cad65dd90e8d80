"""Models on pools without accelerators: one option each, placed by memory, cores and ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.load import Load
from slipway.config.model import Model
from slipway.plan.figures import Cost, DeviceMemory, Figure, Layout, ServingEstimate
from slipway.planner.calibration import Calibration
from slipway.planner.engines.adapter import ProcessorReplica, Served
from slipway.planner.engines.registry import engine_of
from slipway.planner.placement import Placement
from slipway.planner.supply.supply import Supply
from slipway.planner.units import MIB
from slipway.planner.wording import counted

from .cost import make_cost, output_tokens_per_s
from .demand import Demand
from .feasibility import measured
from .option import Option, load_shape, meets_goal
from .packing import hosts_of, needs
from .placed import Placed, in_use
from .replicas import replicas_needed


def processor_option(
    model: Model,
    demand: Demand,
    supply: Supply,
    replica: ProcessorReplica,
    calibration: Calibration,
) -> Option:
    """The option on processors: with times, and replicas for the load, only where they were
    measured."""
    start = engine_of(model).processor_start(model)
    layout = demand.layout or Layout()
    memory = measured(replica.memory, demand, supply, layout, calibration)
    serving = _serving(demand, memory, calibration)
    needed = _needed(demand, serving, start.total_s.value)
    replicas = min(max(round(needed.value), demand.min_replicas), demand.max_replicas)
    return Option(
        demand=demand,
        supply=supply,
        layout=layout,
        memory=memory,
        serving=serving,
        replicas_needed=needed,
        replicas=replicas,
        meets_goal=None
        if demand.load is None or serving is None
        else meets_goal(demand.goal, demand.load, serving, demand.max_replicas),
        cold_start=start,
        cost=_cost(supply, replica, replicas * supply.hosts_of(layout), demand.load),
        on_processors=replica,
    )


def _serving(
    demand: Demand, memory: DeviceMemory, calibration: Calibration
) -> ServingEstimate | None:
    """One replica of the minimum under its share of the load; None if it was never measured."""
    load, precision = demand.load, demand.precision
    layout = demand.layout or Layout()
    found = calibration.find(demand.architecture, None, layout=layout, precision=precision)
    if load is None or found is None:
        return None
    return demand.engine.latency.serving_estimate(
        Served(
            architecture=demand.architecture,
            hardware=None,
            layout=layout,
            precision=precision,
            load=load_shape(load, demand.min_replicas),
            goal=demand.goal,
            memory=memory,
            max_num_seqs=demand.max_num_seqs,
            calibration=calibration,
        )
    )


def _needed(demand: Demand, serving: ServingEstimate | None, startup_s: float) -> Figure:
    load = demand.load
    if load is not None and serving is not None and serving.requests_per_s.value:
        return replicas_needed(load.requests_per_s, serving.requests_per_s, startup_s=startup_s)
    return Figure(
        value=demand.min_replicas,
        unit="replicas",
        basis="declared",
        source="replicas.min: nothing was measured",
    )


def _cost(supply: Supply, replica: ProcessorReplica, members: int, load: Load | None) -> Cost:
    """The price of the share of memory or of cores that the replicas take, whichever is larger.
    A replica on one host is its only member."""
    node, tokens_per_s = supply.node_usd_per_hour, output_tokens_per_s(load) if load else 0.0
    if not node.value:
        return make_cost(0.0, node.source, tokens_per_s=tokens_per_s, price_date="")
    share = max(
        replica.host_memory_bytes / supply.node_memory_bytes, replica.cpu_mhz / supply.node_cpu_mhz
    )
    return make_cost(
        members * share * node.value,
        f"{counted(members, 'replica')} x {share:.3f} of a node x {node.value:g} USD/h"
        f" ({node.source})",
        tokens_per_s=tokens_per_s,
        price_date=supply.price_date,
    )


def misfits(
    supply: Supply, placement: Placement, placed: Iterable[Placed], origin: Origin
) -> Iterator[Problem]:
    """The models whose replicas do not all fit."""
    for each in in_use(supply, placed):
        name, most, need = each.demand.model, each.demand.max_replicas, needs(each)
        unplaced = placement.unplaced.get(name, 0)
        if not unplaced:
            continue
        yield origin.problem(
            ("models", name, "replicas", "max"),
            f"{unplaced} of {most} replicas do not fit in pool"
            f' "{supply.pool}": each needs {need.memory_bytes // MIB} MiB and {need.cpu_mhz} MHz'
            f"{_each_of(each)};"
            f" the pool has {supply.nodes_max} x {supply.node_memory_bytes // MIB} MiB and"
            f" {supply.node_cpu_mhz} MHz, shared with the models placed there",
            value=most,
            fix=_fix(most - unplaced, supply.pool),
        )


def _each_of(placed: Placed) -> str:
    """The hosts of a replica that has several."""
    hosts = hosts_of(placed)
    return f" on each of {hosts} hosts" if hosts > 1 else ""


def _fix(placed: int, pool: str) -> str:
    lower = f"lower max to {placed}, " if placed else ""
    return f'{lower}add nodes to pool "{pool}", or give its nodes more `memory`'
