"""Replicas over two hosts each live and die whole, under streams: whatever happens to a member, its
group ends with an error for whoever it served, forms again, and the others go on.

bench/groups.py has the bars of the times.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.hosts.bed import Bed
from tests.hosts.environment import Checkout, Streams, environment, streams
from tests.hosts.groups import (
    ADDRESSES,
    EDGE,
    FABRIC,
    MEMBERS,
    SETTINGS,
    Logged,
    Member,
    Page,
    end_member,
    formations,
    formations_watched,
    has_formed,
    logged,
    page_watched,
    processes_of,
    requests_at,
    whole,
    write_model,
)
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

GROUPS = 3
AT_ONCE = 12
TOKENS = 150
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


def all_whole(checkout: Checkout) -> list[tuple[Member, ...]]:
    """All groups, once each is whole."""

    def look() -> list[tuple[Member, ...]]:
        found = whole(checkout)
        return found if len(found) == GROUPS else []

    return until(look, f"{GROUPS} groups")


def only_of(requests: list[Logged], streamed: Streams, page: Page) -> None:
    """The requests that failed were the broken group's, and none has begun there since its page
    said so."""
    failed = [each for each in requests if not each.answered]
    assert {each.upstream for each in failed} == {page.upstream}, failed
    assert len(streamed.failed) == len(failed), streamed.failed
    late = [
        each
        for each in requests
        if each.upstream == page.upstream and page.left < each.began < (page.back or FOR_EVER)
    ]
    assert late == [], page


def test_groups_are_on_whole_hosts_of_their_own_and_only_their_first_members_serve(
    checkout: Checkout,
) -> None:
    groups = all_whole(checkout)
    hosts = [member.host for group in groups for member in group]
    assert len(set(hosts)) == GROUPS * MEMBERS
    with streams(EDGE, at_once=AT_ONCE) as streamed:
        until(lambda: len(streamed.ended) > 2 * AT_ONCE)
    assert streamed.failed == []


@contextmanager
def killed(hosts: Bed, member: Member) -> Iterator[None]:
    end_member(member)
    yield


@contextmanager
def stopped(hosts: Bed, member: Member) -> Iterator[None]:
    end_member(member, signal.SIGSTOP)
    yield
    end_member(member, signal.SIGCONT)


@contextmanager
def without_power(hosts: Bed, member: Member) -> Iterator[None]:
    hosts.hosts[member.host].end()
    yield
    hosts.wait_for(hosts.start(member.host, same_disk=True))


@contextmanager
def without_control_network(hosts: Bed, member: Member) -> Iterator[None]:
    hosts.disconnect(member.host)
    yield
    hosts.connect_again(member.host)


@contextmanager
def without_fabric(hosts: Bed, member: Member) -> Iterator[None]:
    hosts.cut_fabric(member.host)
    yield
    hosts.join_fabric_again(member.host)


# What happens to which rank, and whether the group is whole again before that is mended.
BREAKS: Mapping[str, tuple[Callable[[Bed, Member], AbstractContextManager[None]], int, bool]] = {
    "its second member is killed": (killed, 1, True),
    "its first member is killed": (killed, 0, True),
    "its second member is stopped": (stopped, 1, False),
    "its second host loses its power": (without_power, 1, True),
    "its second host is cut from the control network": (without_control_network, 1, True),
    "its second host is cut from the fabric": (without_fabric, 1, False),
}


@pytest.mark.parametrize("event", BREAKS)
def test_a_group_ends_whole_and_forms_again_after(
    checkout: Checkout, hosts: Bed, event: str
) -> None:
    broken, rank, forms_by_itself = BREAKS[event]
    # Another group each time: one that ends too often gives its hosts back.
    first = (group := all_whole(checkout)[list(BREAKS).index(event) % GROUPS])[0]
    (place,) = set(formations()[first.group])
    engine = Path(f"/proc/{processes_of(first)[1]}")
    before = len(logged(hosts))
    with (
        formations_watched() as twice,
        page_watched(first) as page,
        streams(EDGE, at_once=AT_ONCE, tokens=TOKENS, prompt="hi {}") as streamed,
    ):
        until(lambda: requests_at(checkout, page.upstream, "rq_active") > 0)
        with broken(hosts, group[rank]):
            until(lambda: not engine.exists(), "the end of the first member's engine")
            until(lambda: requests_at(checkout, page.upstream, "rq_active") == 0)
            if forms_by_itself:
                until(lambda: has_formed(first.group, before=place))
        until(lambda: has_formed(first.group, before=place))
        all_whole(checkout)
        ended = len(streamed.ended)
        until(lambda: len(streamed.ended) > ended + AT_ONCE)
    assert twice == []
    only_of(logged(hosts)[before:], streamed, page)
