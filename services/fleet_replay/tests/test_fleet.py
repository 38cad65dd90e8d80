"""A fleet under a trace: routing, scaling, dropped requests, and counters."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from fleet.autoscaling import Autoscaler, ScalingPolicy
from fleet.fleet import NO_REPLICA, OVER_LIMIT, TOO_LONG, Fleet, simulate
from fleet.report import quantiles, report
from fleet.routing import LeastRequest, PrefixHash, RoundRobin
from fleet.trace import Request
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.core.scheduler import Limits
from simulator.core.step_time import Profile

PROFILE = Profile(
    name="test",
    kv_bytes_per_token=1,
    base_ms=10,
    prefill_token_ms=0.1,
    sequence_ms=0.5,
    context_token_ms=0,
    source="made up",
    date="",
)
FLEET = Fleet(
    name="test",
    profile=PROFILE,
    limits=Limits(max_num_seqs=8, token_budget=2048, kv_blocks=2000, block_size=16),
    max_model_len=8192,
    scaling=ScalingPolicy(
        min_replicas=1,
        max_replicas=1,
        target_inflight_per_replica=4,
        cooldown_s=60,
        interval_s=5,
        window_s=60,
    ),
    startup_s=20,
    routing="round_robin",
    request_limit=1000,
    accelerators_per_replica=2,
    usd_per_hour_per_replica=3.0,
    ttft_goal_ms=None,
    tpot_goal_ms=None,
)


def scaled(low: int, high: int, *, cooldown_s: float = 60) -> ScalingPolicy:
    return replace(FLEET.scaling, min_replicas=low, max_replicas=high, cooldown_s=cooldown_s)


def load(every_ms: float, count: int, *, output: int = 100, start_ms: float = 0) -> list[Request]:
    return [
        Request(arrived_ms=start_ms + index * every_ms, input_tokens=100, output_tokens=output)
        for index in range(count)
    ]


class Target:
    def __init__(self, number: int, in_flight: int) -> None:
        self.number = number
        self.in_flight = in_flight


def test_one_request_takes_its_prompt_and_its_tokens() -> None:
    (record,) = simulate(FLEET, load(0, 1, output=5)).records
    assert record.timing.first_token_ms == 10
    assert record.timing.finished_ms == 10 + 4 * 10.5


def test_more_replicas_answer_sooner() -> None:
    busy = load(100, 300)
    one, four = (
        report(simulate(replace(FLEET, scaling=scaled(n, n)), busy))["ttft_ms"]["p95"]
        for n in (1, 4)
    )
    assert four < one / 10


def test_a_growing_load_starts_replicas_that_serve_after_their_startup() -> None:
    outcome = simulate(replace(FLEET, scaling=scaled(1, 3)), load(100, 1500))
    started = next(count for count in outcome.counts if count.starting)
    ready = next(count for count in outcome.counts if count.ready > 1)
    assert ready.at_ms - started.at_ms == FLEET.startup_s * 1000


def test_a_longer_startup_misses_the_goal_more_often() -> None:
    shares = [
        report(
            simulate(
                replace(FLEET, scaling=scaled(1, 4), startup_s=startup_s, ttft_goal_ms=500),
                load(100, 3000),
            )
        )["goodput_share"]
        for startup_s in (0, 60, 120)
    ]
    assert shares[0] > shares[1] > shares[2]


def test_replicas_go_when_the_load_has_gone_and_stop_costing() -> None:
    quiet_after = [*load(100, 600), *load(10_000, 30, start_ms=70_000)]
    outcome = simulate(replace(FLEET, scaling=scaled(1, 3)), quiet_after)
    assert max(count.ready for count in outcome.counts) == 3
    assert outcome.counts[-1].ready == 1
    assert outcome.ended_ms < outcome.replica_ms < 3 * outcome.ended_ms


def test_a_fixed_fleet_costs_its_replicas_for_the_whole_time() -> None:
    result = report(simulate(replace(FLEET, scaling=scaled(2, 2)), load(1000, 100)))
    assert result["replica_hours"] == pytest.approx(2 * result["duration_s"] / 3600)
    assert result["accelerator_hours"] == pytest.approx(2 * result["replica_hours"])
    assert result["cost_usd"] == pytest.approx(3 * result["replica_hours"])


def test_requests_over_the_gateways_limit_are_dropped_and_no_others() -> None:
    outcome = simulate(replace(FLEET, request_limit=10), load(0, 25))
    dropped = [record.dropped for record in outcome.records]
    assert dropped == [None] * 10 + [OVER_LIMIT] * 15
    assert report(outcome)["dropped"] == {OVER_LIMIT: 15}


def test_a_request_the_engine_cannot_hold_is_dropped() -> None:
    long = Request(arrived_ms=0, input_tokens=8000, output_tokens=193)
    fits = replace(long, output_tokens=192)
    assert [record.dropped for record in simulate(FLEET, [long, fits]).records] == [TOO_LONG, None]
    assert NO_REPLICA not in report(simulate(FLEET, [long, fits]))["dropped"]


def test_dropped_and_slow_requests_do_not_count_as_goodput() -> None:
    fleet = replace(FLEET, request_limit=10, ttft_goal_ms=10.0)
    result = report(simulate(fleet, load(0, 20, output=1)))
    # 8 start in the first step, which takes 80 ms for their prompts; 10 are dropped.
    assert result["goodput_share"] == 0
    assert report(simulate(fleet, load(1000, 20, output=1)))["goodput_share"] == 1


@settings(max_examples=60)
@given(
    gaps=st.lists(st.integers(0, 4000), min_size=1, max_size=40),
    high=st.integers(1, 4),
    routing=st.sampled_from(["round_robin", "least_request", "prefix_hash"]),
    limit=st.integers(1, 20),
)
def test_every_request_is_answered_once_or_dropped(
    gaps: list[int], high: int, routing: str, limit: int
) -> None:
    now, trace = 0.0, []
    for index, gap in enumerate(gaps):
        now += gap
        trace.append(
            Request(
                arrived_ms=now,
                input_tokens=700,
                output_tokens=1 + index % 50,
                hash_ids=(index % 3, 10 + index),
            )
        )
    fleet = replace(FLEET, scaling=scaled(1, high), routing=routing, request_limit=limit)
    outcome = simulate(fleet, trace)
    assert len(outcome.records) == len(trace)
    for record in outcome.records:
        timing = record.timing
        if record.dropped is None:
            assert timing.first_token_ms is not None
            assert timing.finished_ms is not None
            assert timing.arrived_ms < timing.first_token_ms <= timing.finished_ms
        else:
            assert timing.finished_ms is None
    assert all(1 <= count.ready + count.starting <= high for count in outcome.counts)
    assert simulate(fleet, trace) == outcome


def test_prefix_hashing_finds_more_in_the_cache_than_round_robin() -> None:
    # Sixteen prefixes of 2,048 tokens; the memory of a replica holds seven of them.
    trace = [
        Request(
            arrived_ms=400.0 * index,
            input_tokens=2100,
            output_tokens=5,
            hash_ids=(*range(4 * prefix, 4 * prefix + 4), 1000 + index),
        )
        for index, prefix in enumerate(random.Random(1).choices(range(16), k=200))
    ]
    limits = Limits(max_num_seqs=8, token_budget=4096, kv_blocks=1000, block_size=16)
    shares = {
        routing: report(
            simulate(replace(FLEET, limits=limits, scaling=scaled(4, 4), routing=routing), trace)
        )["prefix_cache_hit_share"]
        for routing in ("round_robin", "prefix_hash")
    }
    assert shares["prefix_hash"] > shares["round_robin"] + 0.2


def test_a_prefix_keeps_its_replica_when_another_one_comes() -> None:
    three, four = ([Target(number, 0) for number in range(count)] for count in (3, 4))
    router = PrefixHash()
    request = [
        Request(arrived_ms=0, input_tokens=512, output_tokens=1, hash_ids=(key,))
        for key in range(400)
    ]
    before = [router.pick(three, each).number for each in request]
    after = [router.pick(four, each).number for each in request]
    moved = [new for old, new in zip(before, after, strict=True) if new != old]
    assert set(moved) == {3}
    assert 60 < len(moved) < 140  # a quarter
    assert all(before.count(number) > 100 for number in range(3))


def test_a_prefix_leaves_an_overloaded_replica() -> None:
    request = Request(arrived_ms=0, input_tokens=512, output_tokens=1, hash_ids=(1,))
    home = PrefixHash().pick([Target(0, 0), Target(1, 0)], request).number
    crowded = [Target(number, 9 if number == home else 0) for number in range(2)]
    assert PrefixHash().pick(crowded, request).number != home


def test_round_robin_takes_turns_and_least_request_the_less_busy_replica() -> None:
    request = Request(arrived_ms=0, input_tokens=1, output_tokens=1)
    targets = [Target(0, 5), Target(1, 0)]
    turns = RoundRobin()
    assert [turns.pick(targets, request).number for _ in range(4)] == [0, 1, 0, 1]
    least = LeastRequest()
    picked = [least.pick(targets, request).number for _ in range(400)]
    assert 60 < picked.count(0) < 140  # only if both picks are the busy one


def test_the_count_is_the_peak_of_the_window_over_the_target_inside_the_limits() -> None:
    autoscaler = Autoscaler(scaled(1, 5, cooldown_s=0))
    assert autoscaler.wanted(5, 9, 1) == 3  # 9 / 4, rounded up
    assert autoscaler.wanted(10, 0, 3) == 3  # the peak is 5 s old
    assert autoscaler.wanted(64, 0, 3) == 3
    assert autoscaler.wanted(66, 0, 3) == 1
    assert autoscaler.wanted(71, 1000, 1) == 5


def test_nothing_changes_during_a_cooldown() -> None:
    autoscaler = Autoscaler(scaled(1, 5))
    assert autoscaler.wanted(5, 5, 1) == 2
    assert autoscaler.wanted(60, 20, 2) == 2
    assert autoscaler.wanted(65, 20, 2) == 5


def test_quantiles_lie_between_their_neighbours() -> None:
    found = quantiles([4.0, 1.0, 3.0, 2.0])
    assert found == {
        "p50": 2.5,
        "p95": pytest.approx(3.85),
        "p99": pytest.approx(3.97),
        "mean": 2.5,
    }
    assert quantiles([])["p50"] is None
