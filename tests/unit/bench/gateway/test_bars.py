"""The bars of bench/gateway, and how they are shown."""

from __future__ import annotations

import dataclasses
import math

import pytest

from bench.gateway.bars import Verdict, bars, judged, ours
from bench.gateway.contender import DIRECT
from bench.gateway.contenders import (
    BEFORE,
    CACHE_AWARE,
    OURS_AFFINITY,
    OURS_LEAST_REQUEST,
    ROUND_ROBIN,
)
from bench.gateway.measurement import Run
from bench.gateway.tables import HEADINGS, bar_table, trace_table
from tests.unit.bench.gateway.runs import RUN


def run(contender: str, **changed: object) -> Run:
    return dataclasses.replace(RUN, contender=contender, **changed)  # type: ignore[arg-type]


def verdict(what: str, *runs: Run) -> Verdict:
    """The one bar of the runs' trace and concurrency that begins so."""
    (found,) = (
        each
        for each in judged(runs, bars(OURS_AFFINITY, replicas=4, concurrencies=[1, 16]))
        if each.what.startswith(what)
        and (each.trace, each.concurrency) == (runs[0].trace, runs[0].concurrency)
    )
    return found


@pytest.mark.parametrize(("hits", "met"), [(0.49, True), (0.47, False)])
def test_hits_may_be_two_points_below_the_cache_aware_router(hits: float, met: bool) -> None:
    found = verdict(
        "hit ratio",
        run(OURS_AFFINITY, trace="groups", hit_ratio=hits),
        run(CACHE_AWARE, trace="groups", hit_ratio=0.5),
    )
    assert found.met is met
    assert found.limit == "at least -2 points"


@pytest.mark.parametrize(("share", "met"), [(0.79, True), (0.81, False)])
def test_the_busiest_replica_has_the_bound_of_a_fair_share_and_five_points(
    share: float, met: bool
) -> None:
    hot = run(OURS_AFFINITY, trace="hot", concurrency=16, busiest_share=share)
    assert verdict("requests of the busiest", hot).met is met


def test_a_ratio_is_the_median_of_those_of_the_pairs() -> None:
    pairs = [(1.0, 2.0), (3.0, 1.0), (0.8, 1.0)]
    found = verdict(
        f"processor time per request against {CACHE_AWARE}",
        *(run(OURS_AFFINITY, pair=n, gateway_cpu_ms=pair[0]) for n, pair in enumerate(pairs)),
        *(run(CACHE_AWARE, pair=n, gateway_cpu_ms=pair[1]) for n, pair in enumerate(pairs)),
    )
    assert (found.measured, found.met) == (0.8, True)


@pytest.mark.parametrize("other", [BEFORE, ROUND_ROBIN])
def test_a_pair_that_lacks_a_contender_is_not_counted(other: str) -> None:
    what = f"processor time per request against {other}"
    assert verdict(what, run(OURS_AFFINITY)).met is None
    found = verdict(what, run(OURS_AFFINITY), run(OURS_AFFINITY, pair=1), run(other))
    assert found.measured == 1.0


def test_what_a_gateway_adds_is_its_difference_to_one_replica() -> None:
    found = verdict(
        "added TTFT",
        run(OURS_AFFINITY, ttft_p50_ms=3.5),
        run(CACHE_AWARE, ttft_p50_ms=6.0),
        run(DIRECT, ttft_p50_ms=3.0),
    )
    assert found.measured == pytest.approx(0.5 / 3)


def test_the_default_of_this_checkout_is_judged() -> None:
    assert ours([run(OURS_LEAST_REQUEST), run(OURS_AFFINITY)]) == OURS_AFFINITY
    assert ours([run(OURS_LEAST_REQUEST), run(CACHE_AWARE)]) == OURS_LEAST_REQUEST


def test_a_table_has_a_row_for_each_contender_and_number_in_flight() -> None:
    runs = [
        run(DIRECT, ttft_p50_ms=3.0),
        run(OURS_AFFINITY),
        run(OURS_AFFINITY, concurrency=16, errors={"HTTP 503": 2}),
        run(OURS_AFFINITY, concurrency=16, pair=1, errors={"HTTP 503": 1}),
    ]
    lines = list(trace_table(runs, [DIRECT, OURS_AFFINITY]))
    assert len(lines) == 2 + 3
    assert {line.count("|") for line in lines} == {len(HEADINGS) + 1}
    assert "| 1 | slipway affinity | 4.0 | 5.0 | 6.0 | 1.00 | 50.0% | 1.00 | 30% | 0 |" in lines
    assert lines[-1].endswith("| 3 x HTTP 503 |")
    (direct,) = (line for line in lines if DIRECT in line)
    assert direct.endswith("| 50.0% |  | 30% | 0 |")


def test_a_run_without_an_answer_is_shown() -> None:
    nan = math.nan
    broken = run(OURS_AFFINITY, ttft_p50_ms=nan, hit_ratio=nan, errors={"HTTP 503": 400})
    assert "| nan | " in list(trace_table([broken], [OURS_AFFINITY]))[-1]


def test_a_missed_bar_stands_out() -> None:
    missed = Verdict(
        what="w", trace="t", concurrency=1, measured=1.234, limit="at most 1", met=False
    )
    unknown = dataclasses.replace(missed, measured=None, met=None)
    lines = list(bar_table([missed, unknown], OURS_AFFINITY))
    assert lines[2:] == [
        "| w | t | 1 | 1.234 | at most 1 | **no** |",
        "| w | t | 1 |  | at most 1 | not measured |",
    ]
