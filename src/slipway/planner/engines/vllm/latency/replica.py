"""One replica under a load: TTFT, TPOT, and the requests per second it sustains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

from slipway.plan.figures import (
    Basis,
    Figure,
    ServingEstimate,
)
from slipway.plan.platform import LatencyGoal
from slipway.planner.engines.adapter import LoadShape, Served
from slipway.planner.engines.vllm.latency.queueing import (
    BISECTIONS,
    MOST_PROMPT_SHARE,
    Replica,
    bisected,
    sequences_p95,
)
from slipway.planner.wording import counted

from .error_bars import Band, ErrorBars, error_bars
from .replica_times import Requests, Roofline, measured_replica, roofline_replica

BAR_BISECTIONS = 8  # an error bar need not be as exact as its figure


def serving_estimate(served: Served) -> ServingEstimate:
    """One replica under its load, or under what it sustains where the load is higher.

    TTFT and TPOT are means; `requests_per_s` meets the goal at the 95th percentile, and is 0 when
    a single request misses it: `with_sustained_error` adds its error. A matching calibration row
    overrides the roofline.

    Raises ValueError if there is neither hardware (processors have no roofline) nor a row.
    """
    return _estimate(served.load, served.goal, _times(served))


def with_sustained_error(estimate: ServingEstimate, served: Served) -> ServingEstimate:
    """The estimate with the lowest and the highest number of requests that the replica may sustain
    within its goal. They take as long as the estimate itself, which most options do without."""
    times, goal = _times(served), served.goal
    if times.bars is None:
        return estimate
    slowest, fastest = (
        _sustained(_at_bar(times.replica, times.bars, end), goal, rounds=BAR_BISECTIONS)[0]
        for end in (1, 0)
    )
    figure = replace(estimate.requests_per_s, low=slowest, high=fastest)
    return replace(estimate, requests_per_s=figure)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """A replica's times; without `bars` they were measured."""

    replica: Replica
    source: str
    bars: ErrorBars | None


def _times(served: Served) -> _Times:
    requests = Requests(
        input_tokens=served.load.input_tokens,
        output_tokens=served.load.output_tokens,
        most_sequences=served.layout.data * _most_sequences(served),
    )
    architecture, hardware, layout = served.architecture, served.hardware, served.layout
    precision, calibration = served.precision, served.calibration
    roofline: Roofline = _no_roofline
    if hardware is not None:
        roofline = partial(
            roofline_replica, architecture, hardware, layout=layout, precision=precision
        )
    if calibration is not None:
        accelerator = None if hardware is None else hardware.accelerator
        found = calibration.find(architecture, accelerator, layout=layout, precision=precision)
        if found is not None:
            replica = measured_replica(found.measurement, requests, roofline)
            return _Times(replica=replica, source=found.source, bars=None)
    estimated = roofline(requests)
    if hardware is None or estimated is None:
        raise ValueError("processors have no roofline: the calibration needs a row for them")
    bars = error_bars(hardware, precision.weights)
    return _Times(replica=estimated, source=bars.source, bars=bars)


def _no_roofline(_: Requests) -> None:
    return None


def _most_sequences(served: Served) -> float:
    """Of one data-parallel group. A sequence holds its prompt and, on average, half of its
    output."""
    memory = served.memory
    tokens = served.load.input_tokens + served.load.output_tokens // 2
    held = memory.started_cache_bytes / memory.sequence.held_bytes(tokens)
    return min(served.max_num_seqs, held)


def _estimate(load: LoadShape, goal: LatencyGoal, times: _Times) -> ServingEstimate:
    replica, source, bars = times.replica, times.source, times.bars
    basis: Basis = "measured" if bars is None else "estimate"
    sustained, limit = _sustained(replica, goal)
    point = replica.under(min(load.requests_per_s, sustained))
    decoding = max(1.0, point.sequences)
    prefill, decode = (None, None) if bars is None else (bars.prefill, bars.decode)

    def figure(value: float, unit: str, how: str, band: Band | None) -> Figure:
        low, high = (None, None) if band is None else (value * band[0], value * band[1])
        return Figure(
            value=value, unit=unit, basis=basis, source=f"{how}; {source}", low=low, high=high
        )

    lengths = f"{load.input_tokens} + {load.output_tokens} tokens"
    return ServingEstimate(
        concurrency=round(decoding),
        ttft_ms=figure(
            point.ttft_ms,
            "ms",
            "the rest of a step, others' prompts and its own"
            " (planner/engines/vllm/latency/queueing.py),"
            f" at {point.requests_per_s:.3g} requests/s of {lengths}",
            prefill,
        ),
        tpot_ms=figure(
            point.tpot_ms,
            "ms",
            f"step of {counted(round(decoding), 'sequence')} and what prompts add to it"
            " (planner/engines/vllm/latency/queueing.py)",
            decode,
        ),
        prefill_tokens_per_s=figure(
            load.input_tokens / replica.prompt_s,
            "tokens/s",
            f"prompts of {load.input_tokens} tokens, nothing else",
            _inverse(prefill),
        ),
        decode_tokens_per_s=figure(
            decoding / point.tpot_ms * 1000,
            "tokens/s",
            f"{counted(round(decoding), 'sequence')} / TPOT",
            _inverse(decode),
        ),
        requests_per_s=Figure(
            value=sustained,
            unit="requests/s",
            basis=basis,
            source=f"of {lengths}, limited by {limit}; {source}",
        ),
    )


def _inverse(band: Band | None) -> Band | None:
    return None if band is None else (1 / band[1], 1 / band[0])


def _at_bar(replica: Replica, bars: ErrorBars, end: int) -> Replica:
    """The replica at the lower (0) or upper (1) end of the error bars."""
    return replica.slower(prompt=bars.prefill[end], step=bars.decode[end])


@lru_cache(maxsize=8192)
def _sustained(
    replica: Replica, goal: LatencyGoal, *, rounds: int = BISECTIONS
) -> tuple[float, str]:
    """(requests/s that the replica sustains within the goal, what limits it)."""
    if replica.most_sequences < 1:
        return 0.0, "the KV cache, which does not hold one request"
    if alone := _broken(replica, goal, 0.0):
        return 0.0, f"{alone}, which a single request misses"
    kept, too_many = bisected(
        replica.most_sequences,
        lambda sequences: _broken(replica, goal, sequences) is None,
        rounds=rounds,
    )
    return replica.at(kept).requests_per_s, _broken(replica, goal, too_many) or ""


def _broken(replica: Replica, goal: LatencyGoal, sequences: float) -> str | None:
    """The first limit broken with `sequences` decoding on average, None if none is."""
    if sequences_p95(sequences) > replica.most_sequences:
        return f"the {counted(round(replica.most_sequences), 'sequence')} it holds"
    point = replica.at(sequences)
    if point.requests_per_s * replica.prompt_s > MOST_PROMPT_SHARE:
        return f"{MOST_PROMPT_SHARE:.0%} of the time for prompts"
    if goal.tpot_p95_ms is not None and point.tpot_p95_ms > goal.tpot_p95_ms:
        return f"the TPOT goal of {goal.tpot_p95_ms} ms"
    if goal.ttft_p95_ms is not None and point.ttft_p95_ms > goal.ttft_p95_ms:
        return f"the TTFT goal of {goal.ttft_p95_ms} ms"
    return None
