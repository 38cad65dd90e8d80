"""Clients that ask a gateway again and again, each time on a new connection, whether or not the
answers before have come.

They are made of the standard library's client, because every one of httpx reads all certificates of
this machine first: dozens of them would leave nothing of it to the platform.
"""

from __future__ import annotations

import http.client
import itertools
import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.waiting import HANG_S

AT_ONCE = 32  # requests of a client, at most
PAUSE_S = 0.05  # between an answer and the next request
GIVEN_PATIENCE_S = 2  # an answer that takes longer is not waited for before the next request
REFUSED = "ConnectionRefusedError"
# A request whose connection ended while it was waiting for the answer or reading it; or that heard
# nothing more, because its host could not send from an address that had gone.
CUT = ("IncompleteRead", "RemoteDisconnected", "ConnectionResetError", "TimeoutError")


_EVENTS = itertools.count(1)  # numbers the beginnings and ends of all clients' requests


@dataclass(frozen=True, kw_only=True)
class Request:
    """`began` and `ended` are its places in the order of all beginnings and ends."""

    began: int
    ended: int
    failure: str  # "" if it was answered in full


@contextmanager
def asking(
    address: str, path: str, body: dict[str, Any] | None = None, *, end: str = ""
) -> Iterator[list[Request]]:
    """The requests so far. An answer that does not end with `end` is not answered in full."""
    requests, over = list[Request](), Future[None]()

    def ask() -> None:
        began = next(_EVENTS)
        failure = _ask(address, path, body, end)
        requests.append(Request(began=began, ended=next(_EVENTS), failure=failure))

    def ask_on() -> None:
        while not over.done():
            wait([at_once.submit(ask), over], GIVEN_PATIENCE_S, FIRST_COMPLETED)
            time.sleep(PAUSE_S)

    with ThreadPoolExecutor(AT_ONCE) as at_once, ThreadPoolExecutor(1) as client:
        asking_on = client.submit(ask_on)
        try:
            yield requests
        finally:
            over.set_result(None)
            asking_on.result()


def moments_in_common(requests: Iterable[Request]) -> int:
    """The least number of moments of which each request went on at one."""
    moments, latest = 0, 0
    for request in sorted(requests, key=lambda each: each.ended):
        if request.began > latest:
            moments, latest = moments + 1, request.ended
    return moments


def _ask(address: str, path: str, body: dict[str, Any] | None, end: str) -> str:
    """Why it failed; "" if it did not."""
    connection = http.client.HTTPConnection(address, 8080, timeout=HANG_S)
    headers = {"Content-Type": "application/json", "Connection": "close"}
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode().strip()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()
    return "" if answer.status == 200 and text.endswith(end) else f"{answer.status} {text[-300:]}"
