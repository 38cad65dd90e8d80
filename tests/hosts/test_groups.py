"""Replicas over two hosts each live and die whole, under streams: whatever happens to a member, its
group ends with an error for whom it served, forms again, and the others go on.

bench/groups.py has the bars of the times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.hosts.bed import Bed
from tests.hosts.broken_groups import AT_ONCE, BREAKS, GROUPS, all_whole, break_group
from tests.hosts.environment import Checkout, environment, streams
from tests.hosts.groups import ADDRESSES, EDGE, FABRIC, MEMBERS, SETTINGS, write_model
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

FOR_EVER = "9999"  # sorts after every moment


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return ADDRESSES


@pytest.fixture(scope="module")
def fabric() -> Mapping[str, str]:
    return FABRIC


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": GROUPS, "max": GROUPS}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        write_model(made)
        made.slipway("up")
        yield made


def test_groups_are_on_hosts_of_their_own_and_serve(checkout: Checkout) -> None:
    hosts = [member.host for group in all_whole(checkout) for member in group]
    assert len(set(hosts)) == GROUPS * MEMBERS
    with streams(EDGE, at_once=AT_ONCE, prompt="hi {}") as streamed:
        until(lambda: len(streamed.ended) > 2 * AT_ONCE)
    assert streamed.failed == []


@pytest.mark.parametrize("event", BREAKS)
def test_a_group_ends_whole_and_forms_again_after(
    checkout: Checkout, hosts: Bed, event: str
) -> None:
    broken = break_group(checkout, hosts, event)
    page, failed = broken.page, [each for each in broken.requests if not each.answered]
    assert failed or not BREAKS[event].ends_streams
    assert {each.upstream for each in failed} <= {page.upstream}, failed
    assert len(broken.streamed.failed) == len(failed), broken.streamed.failed
    # Envoy asks for the page once a second. What it sends there in between is sent elsewhere.
    late = [
        each
        for each in broken.requests
        if each.upstream == page.upstream and page.left < each.began < (page.back or FOR_EVER)
    ]
    assert late == [], page
    assert broken.twice == []
