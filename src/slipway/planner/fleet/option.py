"""One way to run a model: a replica's serving estimate, the number of replicas, the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slipway.config.load import Load
from slipway.plan.figures import (
    ColdStart,
    Cost,
    DeviceMemory,
    Figure,
    Layout,
    ServingEstimate,
)
from slipway.plan.platform import LatencyGoal
from slipway.planner.calibration import Calibration
from slipway.planner.engines.adapter import LoadShape, ProcessorReplica, Served
from slipway.planner.hardware import Hardware, replica_hardware
from slipway.planner.quantization import SCHEMES, weight_bytes
from slipway.planner.supply.supply import Supply

from .cold_start import cliff, cold_start
from .cost import replica_cost
from .demand import Demand
from .replicas import replicas_needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a model whose memory fits. `replicas` serve the declared load; without one
    they are the minimum. `on_processors` is what each takes of a CPU pool's
    node, None on accelerators."""

    demand: Demand
    supply: Supply
    layout: Layout
    memory: DeviceMemory
    serving: ServingEstimate | None
    replicas_needed: Figure
    replicas: int
    meets_goal: bool | None
    cold_start: ColdStart
    cost: Cost
    on_processors: ProcessorReplica | None = None


def make_option(
    demand: Demand,
    supply: Supply,
    layout: Layout,
    memory: DeviceMemory,
    *,
    detection_s: float,
    calibration: Calibration | None,
) -> Option:
    """The option for a layout that fits: what it serves and costs under the demand's load."""
    start = cold_start(
        supply,
        weight_bytes=weight_bytes(demand.architecture, SCHEMES[demand.precision.weights]),
    )
    load = demand.load
    if load is None:
        return _without_load(demand, supply, layout, memory, start)

    latency = demand.engine.latency

    def estimate(replicas: int) -> ServingEstimate:
        return latency.serving_estimate(
            _served(
                demand,
                replica_hardware(supply, layout),
                load=load_shape(load, replicas),
                layout=layout,
                memory=memory,
                calibration=calibration,
            )
        )

    alone = estimate(1)
    needed = _needed(demand, load, alone, start.total_s.value)
    replicas = min(max(round(needed.value), demand.min_replicas), demand.max_replicas)
    serving = alone if replicas == 1 else estimate(replicas)
    edge = _cliff(demand.goal, load, serving, replicas, detection_s)
    return Option(
        demand=demand,
        supply=supply,
        layout=layout,
        memory=memory,
        serving=serving,
        replicas_needed=needed,
        replicas=replicas,
        meets_goal=meets_goal(demand.goal, load, serving, replicas),
        cold_start=ColdStart(parts=start.parts, total_s=start.total_s, cliff_s=edge),
        cost=replica_cost(supply, devices=layout.devices, replicas=replicas, load=load),
    )


def with_errors(option: Option, calibration: Calibration) -> Option:
    """The option with the errors of what a replica sustains, and so of the replicas needed."""
    demand, load = option.demand, option.demand.load
    if option.serving is None or load is None or option.supply.accelerator is None:
        return option
    served = _served(
        demand,
        replica_hardware(option.supply, option.layout),
        load=load_shape(load, 1),
        layout=option.layout,
        memory=option.memory,
        calibration=calibration,
    )
    latency = demand.engine.latency
    alone = latency.with_sustained_error(latency.serving_estimate(served), served)
    low, high = alone.requests_per_s.low, alone.requests_per_s.high
    sustained = replace(option.serving.requests_per_s, low=low, high=high)
    return replace(
        option,
        serving=replace(option.serving, requests_per_s=sustained),
        replicas_needed=_needed(demand, load, alone, option.cold_start.total_s.value),
    )


def load_shape(load: Load, replicas: int) -> LoadShape:
    """The mean request, and one replica's share of the rate."""
    return LoadShape(
        requests_per_s=load.requests_per_s / replicas,
        input_tokens=round(load.input_tokens.mean),
        output_tokens=round(load.output_tokens.mean),
    )


def sequences_at_mean_length(option: Option) -> int:
    """How many requests of mean length a replica runs together: as many as its KV cache holds, and
    at most max_num_seqs. Without a load, of full length."""
    demand, memory, load = option.demand, option.memory, option.demand.load
    length = demand.max_model_len
    if load is not None:
        length = round(load.input_tokens.mean + load.output_tokens.mean)
    held = memory.started_cache_bytes // memory.sequence.held_bytes(length)
    return option.layout.data * min(held, demand.max_num_seqs)


def meets_goal(
    goal: LatencyGoal, load: Load, serving: ServingEstimate, replicas: int
) -> bool | None:
    """Whether `replicas` meet the goal under the load; None without a goal.

    `serving.requests_per_s` is what one replica sustains with the goal met at its percentile.
    """
    if not _has_goal(goal):
        return None
    return load.requests_per_s <= replicas * serving.requests_per_s.value


def missed_goals(option: Option) -> Iterator[str]:
    """Why the option misses the goal."""
    demand, serving = option.demand, option.serving
    load = demand.load
    if serving is None or load is None:
        return
    if not serving.requests_per_s.value:
        yield (
            f"misses the goal even with a single request: TTFT {serving.ttft_ms.value:.0f} ms, TPOT"
            f" {serving.tpot_ms.value:.0f} ms"
        )
        return
    needed = -(-load.requests_per_s // serving.requests_per_s.value)
    if needed <= option.replicas:
        return
    if _requests_in_flight(serving, load) < 1:
        yield f"a single request takes most of the goal: {_against(demand.goal, serving)}"
    else:
        yield (
            f"needs {needed:.0f} replicas to meet the goal, but replicas.max is"
            f" {demand.max_replicas}"
        )


def _has_goal(goal: LatencyGoal) -> bool:
    return goal.ttft_p95_ms is not None or goal.tpot_p95_ms is not None


def _requests_in_flight(serving: ServingEstimate, load: Load) -> float:
    """On average in a replica at what it sustains with the goal met (Little's law). Fewer than one
    means that any second request breaks the goal."""
    decode_ms = (load.output_tokens.mean - 1) * serving.tpot_ms.value
    return serving.requests_per_s.value * (serving.ttft_ms.value + decode_ms) / 1000


def _against(goal: LatencyGoal, serving: ServingEstimate) -> str:
    """The goal of which a request uses the largest share: "TPOT 59.7 of 60 ms"."""
    times = (
        ("TTFT", serving.ttft_ms.value, goal.ttft_p95_ms),
        ("TPOT", serving.tpot_ms.value, goal.tpot_p95_ms),
    )
    _, said = max((ms / most, f"{name} {ms:.3g} of {most} ms") for name, ms, most in times if most)
    return said


def _served(
    demand: Demand,
    hardware: Hardware,
    *,
    load: LoadShape,
    layout: Layout,
    memory: DeviceMemory,
    calibration: Calibration | None,
) -> Served:
    return Served(
        architecture=demand.architecture,
        hardware=hardware,
        layout=layout,
        precision=demand.precision,
        load=load,
        goal=demand.goal,
        memory=memory,
        max_num_seqs=demand.max_num_seqs,
        calibration=calibration,
    )


def _without_load(
    demand: Demand, supply: Supply, layout: Layout, memory: DeviceMemory, start: ColdStart
) -> Option:
    return Option(
        demand=demand,
        supply=supply,
        layout=layout,
        memory=memory,
        serving=None,
        replicas_needed=Figure(
            value=demand.min_replicas,
            unit="replicas",
            basis="declared",
            source="replicas.min: no load is declared",
        ),
        replicas=demand.min_replicas,
        meets_goal=None,
        cold_start=start,
        cost=replica_cost(supply, devices=layout.devices, replicas=demand.min_replicas, load=None),
    )


def _needed(demand: Demand, load: Load, alone: ServingEstimate, startup_s: float) -> Figure:
    """The replicas needed; at most the allowed maximum where more replicas cannot help, because one
    of them misses the goal with a second request, or with its first."""
    per_replica = alone.requests_per_s
    why = "misses the goal even with a single request"
    if per_replica.value > 0:
        needed = replicas_needed(load.requests_per_s, per_replica, startup_s=startup_s)
        second_misses = _has_goal(demand.goal) and _requests_in_flight(alone, load) < 1
        if needed.value <= demand.max_replicas or not second_misses:
            return needed
        why = "misses the goal with any second request"
    return Figure(
        value=demand.max_replicas,
        unit="replicas",
        basis=per_replica.basis,
        source=f"replicas.max: a replica {why}",
    )


def _cliff(
    goal: LatencyGoal, load: Load, serving: ServingEstimate, replicas: int, detection_s: float
) -> Figure | None:
    if goal.ttft_p95_ms is None:
        return None
    return cliff(
        load,
        capacity=replicas * serving.requests_per_s.value,
        slack_s=(goal.ttft_p95_ms - serving.ttft_ms.value) / 1000,
        detection_s=detection_s,
        source=f"load from {load.source}",
    )
