"""One replica under a load: TTFT, TPOT, and the requests per second it sustains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.figures import (
    Basis,
    DeviceMemory,
    Figure,
    Layout,
    Precision,
    ServingEstimate,
)
from slipway.plan.platform import LatencyGoal
from slipway.planner.engines.vllm.queueing import (
    MOST_PROMPT_SHARE,
    Replica,
    bisected,
    sequences_p95,
)

from .calibration import Calibration
from .replica_times import Requests, Roofline, measured_replica, roofline_replica

# Measured pass time over the roofline's: 9 of 10 passes of aiconfigurator 0.8.0's held-out rows lie
# between these bounds (tests/unit/planner/latency/test_aiconfigurator_latency.py).
PREFILL_BAND = (0.86, 1.51)
DECODE_BAND = (0.77, 1.27)
ROOFLINE = (
    "roofline (planner/latency/roofline.py); bars hold 90 % of aiconfigurator 0.8.0's held-out"
    " passes on H100, A100, L40S, H200, B200"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """The load of one replica. Lengths are those of the mean request."""

    requests_per_s: float
    input_tokens: int
    output_tokens: int


def serving_estimate(
    architecture: Architecture,
    accelerator: Accelerator | None,
    *,
    layout: Layout,
    precision: Precision,
    load: LoadShape,
    goal: LatencyGoal,
    memory: DeviceMemory,
    max_num_seqs: int,
    calibration: Calibration | None = None,
) -> ServingEstimate:
    """One replica under `load`, or under what it sustains where the load is higher.

    TTFT and TPOT are means; `requests_per_s` meets `goal` at the 95th percentile, and is 0 when
    a single request misses it. A matching calibration row overrides the roofline.

    Raises ValueError if there is neither an accelerator (processors have no roofline) nor a row.
    """
    requests = Requests(
        input_tokens=load.input_tokens,
        output_tokens=load.output_tokens,
        most_sequences=layout.data * _most_sequences(memory, load, max_num_seqs),
    )
    roofline: Roofline = _no_roofline
    if accelerator is not None:
        roofline = partial(
            roofline_replica, architecture, accelerator, layout=layout, precision=precision
        )
    measured = None
    if calibration is not None:
        measured = calibration.find(architecture, accelerator, layout=layout, precision=precision)
    if measured is not None:
        replica = measured_replica(measured.measurement, requests, roofline)
        return _estimate(replica, load, goal, basis="measured", source=measured.source)
    estimated = roofline(requests)
    if estimated is None:
        raise ValueError("processors have no roofline: the calibration needs a row for them")
    return _estimate(estimated, load, goal, basis="estimate", source=ROOFLINE)


def _no_roofline(_: Requests) -> None:
    return None


def _most_sequences(memory: DeviceMemory, load: LoadShape, max_num_seqs: int) -> float:
    """Of one data-parallel group. A sequence holds its prompt and, on average, half of its
    output."""
    tokens = load.input_tokens + load.output_tokens // 2
    return min(max_num_seqs, memory.started_cache_bytes / memory.sequence.held_bytes(tokens))


def _estimate(
    replica: Replica, load: LoadShape, goal: LatencyGoal, *, basis: Basis, source: str
) -> ServingEstimate:
    sustained, limit = _sustained(replica, goal)
    point = replica.under(min(load.requests_per_s, sustained))
    decoding = max(1.0, point.sequences)
    bars = basis == "estimate"

    def figure(value: float, unit: str, how: str, band: tuple[float, float]) -> Figure:
        low, high = (value * band[0], value * band[1]) if bars else (None, None)
        return Figure(
            value=value, unit=unit, basis=basis, source=f"{how}; {source}", low=low, high=high
        )

    lengths = f"{load.input_tokens} + {load.output_tokens} tokens"
    return ServingEstimate(
        concurrency=round(decoding),
        ttft_ms=figure(
            point.ttft_ms,
            "ms",
            "the rest of a step, others' prompts and its own (planner/engines/vllm/queueing.py), "
            f"at {point.requests_per_s:.3g} requests/s of {lengths}",
            PREFILL_BAND,
        ),
        tpot_ms=figure(
            point.tpot_ms,
            "ms",
            f"step of {decoding:.0f} sequences and what prompts add to it"
            " (planner/engines/vllm/queueing.py)",
            DECODE_BAND,
        ),
        prefill_tokens_per_s=figure(
            load.input_tokens / replica.prompt_s,
            "tokens/s",
            f"prompts of {load.input_tokens} tokens, nothing else",
            _inverse(PREFILL_BAND),
        ),
        decode_tokens_per_s=figure(
            decoding / point.tpot_ms * 1000,
            "tokens/s",
            f"{decoding:.0f} sequences / TPOT",
            _inverse(DECODE_BAND),
        ),
        requests_per_s=Figure(
            value=sustained,
            unit="requests/s",
            basis=basis,
            source=f"of {lengths}, limited by {limit}; {source}",
            low=_sustained(_at_bar(replica, 1), goal)[0] if bars else None,
            high=_sustained(_at_bar(replica, 0), goal)[0] if bars else None,
        ),
    )


def _inverse(band: tuple[float, float]) -> tuple[float, float]:
    return 1 / band[1], 1 / band[0]


def _at_bar(replica: Replica, end: int) -> Replica:
    """The replica at the lower (0) or upper (1) end of the error bars."""
    return replica.slower(prompt=PREFILL_BAND[end], step=DECODE_BAND[end])


@lru_cache(maxsize=8192)
def _sustained(replica: Replica, goal: LatencyGoal) -> tuple[float, str]:
    """(requests/s that the replica sustains within the goal, what limits it)."""
    if replica.most_sequences < 1:
        return 0.0, "the KV cache, which does not hold one request"
    if alone := _broken(replica, goal, 0.0):
        return 0.0, f"{alone}, which a single request misses"
    kept, too_many = bisected(
        replica.most_sequences, lambda sequences: _broken(replica, goal, sequences) is None
    )
    return replica.at(kept).requests_per_s, _broken(replica, goal, too_many) or ""


def _broken(replica: Replica, goal: LatencyGoal, sequences: float) -> str | None:
    """The first limit broken with `sequences` decoding on average, None if none is."""
    if sequences_p95(sequences) > replica.most_sequences:
        return f"the {replica.most_sequences:.0f} sequences it holds"
    point = replica.at(sequences)
    if point.requests_per_s * replica.prompt_s > MOST_PROMPT_SHARE:
        return f"{MOST_PROMPT_SHARE:.0%} of the time for prompts"
    if goal.tpot_p95_ms is not None and point.tpot_p95_ms > goal.tpot_p95_ms:
        return f"the TPOT goal of {goal.tpot_p95_ms} ms"
    if goal.ttft_p95_ms is not None and point.ttft_p95_ms > goal.ttft_p95_ms:
        return f"the TTFT goal of {goal.ttft_p95_ms} ms"
    return None
