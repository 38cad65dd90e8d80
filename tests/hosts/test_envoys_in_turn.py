"""A changed Envoy on two hosts that share an address, while clients use it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import (
    AT_ONCE,
    Checkout,
    environment,
    listed,
    must_complete,
    streams,
)
from tests.hosts.two_edges import ADDRESSES, EDGES, SERVERS, SETTINGS, SHARED

pytestmark = pytest.mark.hosts

LATER_EDGE = f"{NETWORK}.33"
FIRST, SECOND = (f"envoy-{edge}" for edge in EDGES)
LONG = 600  # tokens of a stream, which takes several seconds: some are cut by every move
CUT = ("ReadError", "RemoteProtocolError")
MOVES = 2  # of the address, at most: away from each host


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**ADDRESSES, "edge-2": LATER_EDGE}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 1, "max": 1}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        made.slipway("up")
        yield made


@contextmanager
def new_connections() -> Iterator[list[str]]:
    """Asks the shared address again and again, each time on a new connection; what came back."""
    found, over = list[str](), threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            try:
                answer = httpx.get(f"http://{SHARED}:8080/v1/models", timeout=60)
                found.append(str(answer.status_code))
            except httpx.HTTPError as error:
                found.append(repr(error))

    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(ask_on)
        try:
            yield found
        finally:
            over.set()
            asked.result()


@pytest.fixture(scope="module")
def changed(checkout: Checkout) -> dict[str, list[str]]:
    """What clients saw of an `up` that changes Envoy's job."""
    for address in (*EDGES.values(), SHARED):
        must_complete(address)
    bootstrap = checkout.folder / "components/gateway/envoy_bootstrap.py"
    text = bootstrap.read_text()
    bootstrap.write_text(text.replace("CONNECTIONS = 10_000", "CONNECTIONS = 9_000"))
    assert bootstrap.read_text() != text
    with new_connections() as asked, streams(SHARED, tokens=LONG) as streamed:
        checkout.slipway("up")
    return {
        "asked": asked,
        "answers": streamed.answers,
        "failed": streamed.failed,
        "changed": sorted(checkout.changed()),
    }


def test_new_requests_are_never_refused(changed: dict[str, list[str]]) -> None:
    assert changed["asked"]
    assert set(changed["asked"]) == {"200"}


def test_only_streams_of_an_envoy_that_restarts_end(changed: dict[str, list[str]]) -> None:
    assert len(changed["answers"]) > len(changed["failed"])
    assert len(changed["failed"]) <= MOVES * AT_ONCE, changed["failed"]
    # Cut while they were read: neither refused, nor left to wait for the client's own timeout.
    assert all(each.startswith(CUT) for each in changed["failed"]), changed["failed"]


def test_the_second_envoy_ends_after_the_first_one_serves_again(
    checkout: Checkout, changed: dict[str, list[str]]
) -> None:
    assert {FIRST, SECOND, f"{FIRST}-serves"} <= set(changed["changed"])
    assert changed_in_turn(checkout, FIRST, SECOND, task="envoy")


@pytest.mark.usefixtures("changed")
def test_new_requests_are_never_refused_while_the_gateway_has_a_host_more_and_less(
    checkout: Checkout,
) -> None:
    """Every host's keepalived changes, and no Envoy does."""
    for edges in ({**EDGES, "edge-2": LATER_EDGE}, EDGES):
        pools = SETTINGS["pools"]
        edge = {**pools["edge"], "hosts": listed(edges)}
        checkout.put("pools", {**pools, "edge": edge})
        with new_connections() as asked:
            checkout.slipway("up")
        assert {f"{FIRST}-address", f"{FIRST}-address-serves"} <= checkout.changed()
        assert {FIRST, SECOND}.isdisjoint(checkout.changed())
        assert set(asked) == {"200"}
        first, second = f"{FIRST}-address", f"{SECOND}-address"
        assert changed_in_turn(checkout, first, second, task="keepalived")


def changed_in_turn(checkout: Checkout, first: str, second: str, *, task: str) -> bool:
    """Whether the newest allocation of the first job started before the second job's last one was
    ended."""
    started = allocations(checkout, first)[-1]
    ended = allocations(checkout, second)[-2]
    return event(started, task, "Started") < event(ended, task, "Killing")


def allocations(checkout: Checkout, job: str) -> list[Any]:
    """Oldest first."""
    address = next(iter(SERVERS.values()))
    found = checkout.ask(f"https://{address}:4646/v1/job/{job}/allocations")
    return sorted(found, key=lambda each: int(each["CreateIndex"]))


def event(allocation: Any, task: str, kind: str) -> int:
    """When it happened to a task, in nanoseconds."""
    events = allocation["TaskStates"][task]["Events"]
    return next(int(each["Time"]) for each in events if each["Type"] == kind)
