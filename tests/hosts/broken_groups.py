"""What happens to members of groups on a test bed, and what becomes of the requests meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.hosts.bed import Bed
from tests.hosts.environment import Checkout, Streams, streams
from tests.hosts.groups import (
    EDGE,
    MEMBERS,
    SILENCE_S,
    STALL_S,
    Logged,
    Member,
    Page,
    end_member,
    envoy_of,
    formations,
    formations_watched,
    has_formed,
    logged,
    page_watched,
    processes_of,
    request_statistic,
    whole,
)
from tests.waiting import until

GROUPS = 3
AT_ONCE, TOKENS = 12, 150
SHORT_AT_ONCE = 3
MARGIN_S = 3  # of the bars: from the end of a group, or its first sign, to its last new request
LOOK_S = 0.05


@contextmanager
def _killed(hosts: Bed, member: Member) -> Iterator[None]:
    end_member(member)
    yield


@contextmanager
def _stopped(hosts: Bed, member: Member) -> Iterator[None]:
    end_member(member, signal.SIGSTOP)
    yield
    end_member(member, signal.SIGCONT)


@contextmanager
def _without_power(hosts: Bed, member: Member) -> Iterator[None]:
    hosts.hosts[member.host].end()
    yield
    hosts.wait_for(hosts.start(member.host, same_disk=True))


@contextmanager
def _without_control_network(hosts: Bed, member: Member) -> Iterator[None]:
    hosts.disconnect(member.host)
    yield
    hosts.connect_again(member.host)


@contextmanager
def _without_fabric(hosts: Bed, member: Member) -> Iterator[None]:
    hosts.cut_fabric(member.host)
    yield
    hosts.join_fabric_again(member.host)


@dataclass(frozen=True, kw_only=True)
class Break:
    """What happens to the member of a rank, and is mended at the end of the block.

    `forms_by_itself` is whether the group is whole again before that, `ends_streams` whether its
    steps end at once. The last new request is to reach it within `bar_s`.
    """

    happens: Callable[[Bed, Member], AbstractContextManager[None]]
    rank: int = 1
    forms_by_itself: bool = True
    ends_streams: bool = True
    bar_s: float


BREAKS: Mapping[str, Break] = {
    "its second member is killed": Break(happens=_killed, bar_s=MARGIN_S),
    "its first member is killed": Break(happens=_killed, rank=0, bar_s=MARGIN_S),
    "its second member is stopped": Break(
        happens=_stopped, forms_by_itself=False, bar_s=SILENCE_S + MARGIN_S
    ),
    "its second host loses its power": Break(happens=_without_power, bar_s=SILENCE_S + MARGIN_S),
    "its second host is cut from the control network": Break(
        happens=_without_control_network, ends_streams=False, bar_s=SILENCE_S + MARGIN_S
    ),
    "its second host is cut from the fabric": Break(
        happens=_without_fabric, forms_by_itself=False, bar_s=STALL_S + MARGIN_S
    ),
}


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A group that broke under streams, and has formed again.

    `requests` are all of that time. `last_new_s` and `formed_s` are seconds after the event: of the
    last request that was sent to the group, and of its next formation. `twice` are the moments at
    which engines of one group were in two formations.
    """

    page: Page
    streamed: Streams
    requests: list[Logged]
    last_new_s: float
    formed_s: float
    twice: list[str]


def all_whole(checkout: Checkout) -> list[tuple[Member, ...]]:
    """All groups, once each is whole."""

    def look() -> list[tuple[Member, ...]]:
        found = whole(checkout)
        return found if len(found) == GROUPS else []

    return until(look, f"{GROUPS} groups of {MEMBERS}")


def break_group(checkout: Checkout, hosts: Bed, event: str) -> Broken:
    """Returns once all groups are whole again and serve."""
    broken = BREAKS[event]
    # Another group each time: one that ends too often gives its hosts back.
    group = all_whole(checkout)[list(BREAKS).index(event) % GROUPS]
    first = group[0]
    (place,) = set(formations()[first.group])
    engine = Path(f"/proc/{processes_of(first)[1]}")
    before = len(logged(hosts))

    def next_formation() -> tuple[float, float]:
        """When it came, and when the last request before it was sent to the group."""
        until(lambda: has_formed(first.group, before=place), "the next formation")
        return time.monotonic(), sent[-1]  # its page still says 503

    with (
        formations_watched() as twice,
        page_watched(first) as page,
        envoy_of(checkout) as envoy,
        _sent(checkout, page.upstream) as sent,
        streams(EDGE, at_once=AT_ONCE, tokens=TOKENS, prompt="hi {}") as streamed,
        # So that some begin at every moment, while the long ones go on.
        streams(EDGE, at_once=SHORT_AT_ONCE, tokens=2, prompt="a short one {}") as short,
    ):
        until(lambda: request_statistic(envoy, page.upstream, "rq_active") > 0)
        happened_s = time.monotonic()
        with broken.happens(hosts, group[broken.rank]):
            until(lambda: not engine.exists(), "the end of the first member's engine")
            until(lambda: request_statistic(envoy, page.upstream, "rq_active") == 0)
            if broken.forms_by_itself:
                formed_s, last_new_s = next_formation()
        if not broken.forms_by_itself:
            formed_s, last_new_s = next_formation()
        all_whole(checkout)
        ended = len(streamed.ended)
        until(lambda: len(streamed.ended) > ended + AT_ONCE)
    return Broken(
        page=page,
        streamed=Streams(ended=[*streamed.ended, *short.ended]),
        requests=logged(hosts)[before:],
        last_new_s=max(last_new_s - happened_s, 0),
        formed_s=formed_s - happened_s,
        twice=twice,
    )


@contextmanager
def _sent(checkout: Checkout, upstream: str) -> Iterator[list[float]]:
    """When the gateway's Envoy was seen to have sent more requests there than before."""
    moments, over, known = [time.monotonic()], threading.Event(), 0

    def look_on(envoy: httpx.Client) -> None:
        nonlocal known
        while not over.wait(LOOK_S):
            sent = request_statistic(envoy, upstream, "rq_total")
            if sent > known:
                moments.append(time.monotonic())
            known = sent

    with envoy_of(checkout) as envoy:
        thread = threading.Thread(target=look_on, args=(envoy,))
        thread.start()
        try:
            yield moments
        finally:
            over.set()
            thread.join()
