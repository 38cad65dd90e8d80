"""Which replicas stay in use although Consul takes them for unhealthy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from control_plane.holding import FELL_TOGETHER_S, HELD_AT_MOST_S, Holding
from control_plane.routing import Endpoint
from hypothesis import given
from hypothesis import strategies as st

LIVENESS = 9


def replicas(states: str, *, liveness_port: int = LIVENESS) -> tuple[Endpoint, ...]:
    """One for each character: `+` is healthy, `-` is not, a blank has left."""
    return tuple(
        Endpoint("10.0.0.1", port, state == "+", f"r{port}", liveness_port, instance=f"i{port}")
        for port, state in enumerate(states, start=1)
        if state != " "
    )


def in_use(endpoints: tuple[Endpoint, ...]) -> str:
    """The last digits of the ports of those in use."""
    return "".join(str(each.port % 10) for each in endpoints if each.in_use)


def after(*steps: tuple[float, str]) -> str:
    """Who is in use after answers of Consul at these times."""
    holding = Holding()
    return [in_use(holding.judged(replicas(states), now_s)) for now_s, states in steps][-1]


@pytest.mark.parametrize(
    ("states", "used"),
    [
        ("-", "1"),  # the last one
        ("+-", "1"),  # one of several: Consul is believed
        ("++-", "12"),
        ("++--", "1234"),  # half
        ("+--", "123"),
        ("---", "123"),
        ("+++++----", "12345"),  # fewer than half
    ],
)
def test_half_of_several_or_all_that_fail_together_are_held(states: str, used: str) -> None:
    assert after((0, "+" * len(states)), (1, states)) == used


def test_they_fail_one_after_the_other_within_some_seconds() -> None:
    steps = [(0.0, "++++"), (1.0, "-+++"), (FELL_TOGETHER_S, "--++")]
    assert after(*steps[:2]) == "234"
    assert after(*steps) == "1234"


def test_one_that_failed_long_ago_does_not_come_back_with_the_next() -> None:
    assert after((0, "++++"), (1, "-+++"), (2 + FELL_TOGETHER_S, "--++")) == "34"


def test_scaling_in_brings_nobody_back() -> None:
    assert after((0, "+++++"), (1, "+++-+"), (40, "+++--"), (90, " ++--")) == "23"


def test_those_that_are_held_stay_while_others_come_and_go() -> None:
    assert after((0, "++++"), (1, "++--"), (60, "++--+++")) == "1234567"


def test_while_others_are_healthy_dead_ones_are_held_for_a_while_only() -> None:
    late = (2 + HELD_AT_MOST_S, "++--")
    assert after((0, "++++"), (1, "++--"), late) == "12"
    assert after((0, "++++"), (1, "++--"), late, (late[0] + 1, "----")) == "1234"


def test_recovered_replicas_are_held_no_more_and_may_fall_again() -> None:
    assert after((0, "++++"), (1, "++--"), (2, "++++"), (50, "++-+")) == "124"


def test_those_that_have_never_been_healthy_are_not_held() -> None:
    assert after((0, "---")) == ""
    assert after((0, "+--"), (1, "---")) == "1"


def test_without_a_liveness_page_nobody_else_would_find_the_dead() -> None:
    holding = Holding()
    holding.judged(replicas("+++", liveness_port=0), 0)
    assert in_use(holding.judged(replicas("---", liveness_port=0), 1)) == ""


def test_what_was_taken_out_on_purpose_is_not_held() -> None:
    holding = Holding()
    holding.judged(replicas("++"), 0)
    withdrawn = tuple(replace(each, instance="") for each in replicas("--"))
    assert in_use(holding.judged(withdrawn, 1)) == ""


def test_a_new_replica_at_the_address_and_port_of_a_dead_one_is_not_held() -> None:
    holding = Holding()
    holding.judged(replicas("++"), 0)
    loading = tuple(replace(each, instance=f"new-{each.port}") for each in replicas("--"))
    assert in_use(holding.judged(loading, 1)) == ""


def test_a_control_plane_that_was_just_started_holds_what_it_knew_as_healthy() -> None:
    known = [replace(each, instance="") for each in replicas("++-")]
    assert in_use(Holding(known).judged(replicas("---"), 0)) == "12"


@given(st.lists(st.tuples(st.floats(0, 400), st.text("+- ", min_size=6, max_size=6)), max_size=12))
def test_whatever_happens_a_cluster_that_has_served_is_not_emptied_by_consul(
    steps: list[tuple[float, str]],
) -> None:
    holding, now_s, served = Holding(), 0.0, set[int]()
    for pause_s, states in steps:
        now_s += pause_s
        members = replicas(states)
        found = holding.judged(members, now_s)
        served &= {each.port for each in members}
        served |= {each.port for each in members if each.healthy}
        assert all(each.in_use for each in found if each.healthy)
        assert {each.port for each in found if each.held} <= served
        assert bool(served) == any(each.in_use for each in found)
