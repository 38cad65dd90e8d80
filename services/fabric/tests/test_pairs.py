"""Rotating pairs."""

from __future__ import annotations

from itertools import combinations

from fabric.pairs import rounds
from hypothesis import given
from hypothesis import strategies as st

HOSTS = st.sets(st.sampled_from([f"gpu-{number}" for number in range(12)]))


@given(hosts=HOSTS, busy=HOSTS)
def test_every_two_free_hosts_meet_once_and_none_twice_in_a_round(
    hosts: set[str], busy: set[str]
) -> None:
    made = rounds(hosts, busy)
    met = [frozenset(pair) for pairs in made for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(list, combinations(sorted(hosts - busy), 2)))
    for pairs in made:
        together = [host for pair in pairs for host in pair]
        assert len(together) == len(set(together))


@given(hosts=HOSTS)
def test_at_most_one_host_rests_in_a_round(hosts: set[str]) -> None:
    for pairs in rounds(hosts):
        assert len(hosts) - 2 * len(pairs) == len(hosts) % 2


def test_one_free_host_measures_with_nobody() -> None:
    assert rounds(["one", "two"], busy=["two"]) == []
