"""Which replicas stay in use although Consul takes them for unhealthy."""

from __future__ import annotations

import pytest
from control_plane.holding import with_held
from control_plane.routing import Endpoint
from hypothesis import given
from hypothesis import strategies as st

LIVENESS = 9


def replicas(
    healthy: int, fallen: int, new: int = 0, *, liveness_port: int = LIVENESS
) -> tuple[Endpoint, ...]:
    """So many of each, at ports in this order."""
    states = [(True, True)] * healthy + [(False, True)] * fallen + [(False, False)] * new
    return tuple(
        Endpoint("10.0.0.1", port, good, f"r{port}", liveness_port, proven=proven)
        for port, (good, proven) in enumerate(states, start=1)
    )


def in_use(endpoints: tuple[Endpoint, ...]) -> int:
    return sum(endpoint.in_use for endpoint in with_held(endpoints))


@pytest.mark.parametrize(
    ("healthy", "fallen", "used"),
    [
        (0, 1, 1),  # the last one
        (1, 1, 1),  # one of two: it is believed
        (2, 1, 2),
        (2, 2, 4),  # half, at once
        (1, 2, 3),
        (0, 3, 3),
        (5, 4, 5),  # fewer than half
        (5, 5, 10),
    ],
)
def test_half_of_several_or_all_that_fail_are_held(healthy: int, fallen: int, used: int) -> None:
    assert in_use(replicas(healthy, fallen)) == used


def test_those_that_have_never_been_healthy_are_not_held() -> None:
    assert in_use(replicas(0, 0, new=3)) == 0
    assert in_use(replicas(0, 1, new=3)) == 1
    assert in_use(replicas(2, 1, new=3)) == 2


def test_without_a_liveness_page_nobody_else_would_find_the_dead() -> None:
    assert in_use(replicas(0, 3, liveness_port=0)) == 0


@given(*(st.integers(0, 12) for _ in range(3)))
def test_a_cluster_is_in_use_by_more_than_half_of_those_that_have_been_healthy_or_by_one_less(
    healthy: int, fallen: int, new: int
) -> None:
    found = with_held(replicas(healthy, fallen, new))
    used = sum(endpoint.in_use for endpoint in found)
    assert used >= healthy
    assert used == healthy + fallen or used > fallen or fallen == 1
    assert all(endpoint.proven for endpoint in found if endpoint.held)
    assert with_held(found) == found


def test_what_is_held_is_given_back_once_most_are_healthy_again() -> None:
    assert [each.held for each in with_held(replicas(0, 3))] == [True] * 3
    assert [each.held for each in with_held(replicas(2, 1))] == [False] * 3
