"""Groups of two hosts are changed, drained and scaled under streams, and wait for hosts that are
missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.hosts.accelerators import scale
from tests.hosts.bed import Bed
from tests.hosts.environment import NAME, Checkout, environment, streams
from tests.hosts.groups import (
    ADDRESSES,
    EDGE,
    FABRIC,
    MEMBERS,
    NOMAD,
    SETTINGS,
    Member,
    engines,
    formations_watched,
    jobs,
    members,
    whole,
    write_model,
)
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

AT_ONCE = 8
TOKENS = 100
# A host that a half group gives back goes to either of the two: the chances of each round are even.
ROUNDS = 12
TWO_MODELS = ("sim-a", "sim-b")


def deployment(least: int, most: int) -> dict[str, Any]:
    """So many groups, which are exchanged in turn: there is no room beside them."""
    return {"pool": "cpu", "replicas": {"min": least, "max": most}, "surge": 0}


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return ADDRESSES


@pytest.fixture(scope="module")
def fabric() -> Mapping[str, str]:
    return FABRIC


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    settings = {**SETTINGS, "models": {"sim-a": deployment(1, 3)}}
    with environment(hosts, tmp_path_factory, models={}, settings=settings) as made:
        write_model(made)
        made.slipway("up")
        yield made


def test_three_groups_come_and_the_highest_go_under_streams(checkout: Checkout) -> None:
    until(lambda: len(whole(checkout)) == 1)
    with (
        formations_watched() as twice,
        streams(EDGE, at_once=AT_ONCE, tokens=TOKENS, prompt="hi {}") as streamed,
    ):
        scale(checkout, "sim-a", 3 * MEMBERS)
        until(lambda: len(whole(checkout)) == 3)
        ended = len(streamed.ended)
        until(lambda: len(streamed.ended) > ended + AT_ONCE)
        scale(checkout, "sim-a", MEMBERS)
        until(lambda: [each.index for each in members(checkout)] == [0, 1])
        until(lambda: {each.group for each in engines()} == {members(checkout)[0].group})
    assert twice == []
    assert streamed.failed == []


def test_a_drained_host_ends_its_group_after_its_requests(checkout: Checkout) -> None:
    scale(checkout, "sim-a", 2 * MEMBERS)
    until(lambda: len(whole(checkout)) == 2)
    groups = whole(checkout)
    for leaving in (groups[0][1], groups[1][0]):  # of either rank
        with streams(EDGE, at_once=AT_ONCE, tokens=TOKENS, prompt="hi {}") as streamed:
            checkout.slipway("drain", leaving.host)
            until(lambda: len(whole(checkout)) == 2)
        assert streamed.failed == []
        assert leaving.host not in {each.host for each in members(checkout)}
        checkout.slipway("return", leaving.host)


def test_a_change_without_surge_exchanges_group_by_group(checkout: Checkout) -> None:
    checkout.put("models", {"sim-a": deployment(3, 4)})
    checkout.slipway("up")
    until(lambda: len(whole(checkout)) == 3)
    (before,) = jobs(checkout)
    write_model(checkout, max_num_seqs=33)
    with (
        formations_watched() as twice,
        streams(EDGE, at_once=AT_ONCE, tokens=TOKENS, prompt="hi {}") as streamed,
    ):
        checkout.slipway("up")
        until(lambda: len(whole(checkout)) == 3)
    assert jobs(checkout) != [before]
    assert streamed.failed == []
    assert twice == []


def whole_groups(checkout: Checkout) -> int:
    return sum(len(whole(checkout, model)) for model in TWO_MODELS)


@pytest.fixture(scope="module")
def four_groups(checkout: Checkout) -> Checkout:
    """Two groups of each of two models, which take all hosts."""
    checkout.put("models", dict.fromkeys(TWO_MODELS, deployment(2, 2)))
    write_model(checkout, "sim-b")
    checkout.slipway("up")
    until(lambda: whole_groups(checkout) == 4)
    return checkout


def test_with_hosts_for_three_groups_and_a_half_one_waits_and_gives_its_host_back(
    four_groups: Checkout, hosts: Bed
) -> None:
    left, lost = whole(four_groups, "sim-b")[1]
    hosts.hosts[lost.host].end()
    until(lambda: given_back(four_groups, left), "the end of the member that is left")
    assert whole_groups(four_groups) == 3
    assert "incomplete" in log_of(hosts, left)
    again = until(lambda: [each for each in members(four_groups, "sim-b") if each.running][2:])
    until(lambda: given_back(four_groups, again[0]), "the end of the one in its place")


def test_two_half_groups_do_not_keep_each_other_waiting(four_groups: Checkout, hosts: Bed) -> None:
    _, lost = whole(four_groups, "sim-a")[1]
    hosts.hosts[lost.host].end()
    until(lambda: whole_groups(four_groups) == 2)
    assert any(a_round_has_ended_whole(four_groups) for _ in range(ROUNDS))


def test_hosts_that_come_back_complete_the_groups(four_groups: Checkout, hosts: Bed) -> None:
    for host in list(hosts.hosts.values()):
        if host.process.poll() is not None:
            hosts.wait_for(hosts.start(host.name, same_disk=True))
    until(lambda: whole_groups(four_groups) == 4)


def a_round_has_ended_whole(checkout: Checkout) -> bool:
    """Returns once one of two half groups is whole, or another member has given its host back."""
    before = len(failed(checkout))
    until(lambda: whole_groups(checkout) == 3 or len(failed(checkout)) > before)
    return whole_groups(checkout) == 3


def failed(checkout: Checkout) -> list[str]:
    """Allocations of members that have given their hosts back, or have died."""
    found = checkout.ask(f"{NOMAD}/v1/allocations?task_states=false")
    return [each["ID"] for each in found if each["ClientStatus"] == "failed"]


def given_back(checkout: Checkout, member: Member) -> bool:
    """Whether the member's allocation has failed."""
    status = checkout.ask(f"{NOMAD}/v1/allocation/{member.allocation}")["ClientStatus"]
    return bool(status == "failed")


def log_of(hosts: Bed, member: Member) -> str:
    """What the member's launcher has said."""
    folder = f"/var/lib/slipway/{NAME}/nodes/{member.host}/nomad/data/alloc/{member.allocation}"
    return hosts.hosts[member.host].ssh(f"cat {folder}/alloc/logs/server.stderr.*")
