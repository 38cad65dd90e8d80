"""Figures from recorded moments, exactly."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.bench.client_watch import (
    MOST_LAG,
    MOST_PROCESSOR,
    PERIOD_S,
    TIMER_S,
    ClientLoad,
    ClientWatch,
    bottleneck,
)
from cli.bench.figures import Percentiles, figures_of, percentiles
from cli.bench.outcome import Answered, Failed

MS = st.floats(0.01, 1e6)


def answered(sent: float, first: float, last: float, tokens: int) -> Answered:
    return Answered(
        sent_s=sent, first_s=first, last_s=last, output_tokens=tokens, input_tokens=2 * tokens
    )


def test_figures_are_those_of_the_moments() -> None:
    """Every number is a sum of powers of two, so nothing is rounded."""
    figures = figures_of(
        [
            answered(8.0, 8.5, 10.5, 5),  # TTFT 500 ms, TPOT 2 s / 4 = 500 ms
            answered(8.25, 8.5, 9.5, 3),  # 250 ms, 1 s / 2 = 500 ms
            answered(10.0, 11.0, 11.0, 1),  # 1,000 ms, and no TPOT
            Failed(sent_s=9.0, ended_s=16.0, kind="HTTP 503", said="busy"),
            Failed(sent_s=9.5, ended_s=9.75, kind="HTTP 503", said="busier"),
            Failed(sent_s=9.5, ended_s=9.75, kind="stream cut", said="gone"),
        ]
    )
    assert figures.requests == 6
    assert figures.answered == 3
    assert figures.errors == {"HTTP 503": 2, "stream cut": 1}
    assert figures.said == {"HTTP 503": "busy", "stream cut": "gone"}
    assert figures.seconds == 8.0
    assert figures.ttft_ms is not None
    assert (figures.ttft_ms.p50, figures.ttft_ms.mean) == (500.0, pytest.approx(1750 / 3))
    assert figures.tpot_ms == Percentiles(p50=500.0, p95=500.0, p99=500.0, mean=500.0)
    assert figures.requests_per_s == 3 / 8
    assert figures.output_tokens_per_s == 9 / 8
    assert figures.output_tokens == 3.0
    assert figures.input_tokens == 6.0


def test_without_an_answer_there_are_no_times() -> None:
    figures = figures_of([Failed(sent_s=1.0, ended_s=2.0, kind="timeout")])
    assert (figures.ttft_ms, figures.tpot_ms, figures.output_tokens) == (None, None, None)
    assert (figures.requests_per_s, figures.output_tokens_per_s) == (0.0, 0.0)
    assert figures_of([]).requests == 0


@given(st.lists(MS, min_size=1, max_size=300))
def test_percentiles_are_numpys(values: list[float]) -> None:
    found = percentiles(values)
    assert found is not None
    expected = np.percentile(values, [50, 95, 99])
    assert (found.p50, found.p95, found.p99) == pytest.approx(tuple(expected), rel=1e-9)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-9)


@given(st.lists(st.tuples(MS, MS, st.integers(1, 500)), min_size=1, max_size=50), st.randoms())
def test_the_order_of_requests_and_the_clocks_zero_change_nothing(
    times_ms: list[tuple[float, float, int]], random: object
) -> None:
    requests = [answered(0.0, ttft, ttft + rest, tokens) for ttft, rest, tokens in times_ms]
    shuffled = list(requests)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert figures_of(shuffled).ttft_ms == figures_of(requests).ttft_ms
    later = [answered(4096.0, 4096 + r.first_s, 4096 + r.last_s, r.output_tokens) for r in requests]
    seen, moved = figures_of(requests).ttft_ms, figures_of(later).ttft_ms
    assert seen is not None
    assert moved is not None
    assert moved.p95 == pytest.approx(seen.p95, rel=1e-6, abs=1e-6)


def client(lag: float, processor: float) -> ClientLoad:
    return ClientLoad(lag_ms=Percentiles(p50=0.0, p95=lag, p99=lag, mean=lag), processor=processor)


async def test_all_moments_of_a_block_of_the_loop_are_late() -> None:
    """A clock on which every moment comes in time but for one, a second late."""
    sleeps = 101
    moments = [0.0]
    for sleep in range(sleeps):
        took_s = PERIOD_S + TIMER_S + (1.0 if sleep == 50 else 0.0)
        moments += [moments[-1], moments[-1] + took_s]
    clock, used = iter(moments), asyncio.Event()

    def now_s() -> float:
        try:
            return next(clock)
        except StopIteration:
            used.set()
            return moments[-1]

    async with ClientWatch(now_s) as watch:
        await used.wait()
    lag_ms = watch.load.lag_ms
    assert lag_ms is not None
    assert lag_ms.p50 == pytest.approx(0)  # the loop was blocked for a third of the time
    assert lag_ms.p95 > 700
    figures = figures_of([answered(0.0, 0.5, 1.0, 2)])
    assert "late at p95" in bottleneck(watch.load, figures)


def test_a_full_processor_or_a_late_loop_is_named_with_its_figure_and_its_limit() -> None:
    figures = figures_of([answered(0.0, 0.5, 1.0, 2)])  # TTFT 500 ms
    most_ms = MOST_LAG * 500
    assert bottleneck(client(most_ms, MOST_PROCESSOR - 0.01), figures) == ""
    full = bottleneck(client(0.0, MOST_PROCESSOR), figures)
    assert "80%" in full
    late = bottleneck(client(most_ms + 1, 0.1), figures)
    assert "26.0 ms late at p95" in late
    assert "5%" in late
    assert "500 ms" in late
    assert bottleneck(client(most_ms + 1, 0.1), figures_of([])) == ""
