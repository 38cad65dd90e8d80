"""Clients that ask a gateway again and again, each time on a new connection, whether or not the
answers before have come.

They are made of the standard library's client, because every one of httpx reads all certificates of
this machine first: dozens of them would leave nothing of it to the platform.
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.waiting import HANG_S

AT_ONCE = 32  # requests of a client, at most
PAUSE_S = 0.05  # between an answer and the next request
PATIENCE = 40  # pauses for which an answer is waited for before the next request
REFUSED = "ConnectionRefusedError"
# A request whose connection ended while it was waiting for the answer or reading it; or that heard
# nothing more, because its host could not send from an address that had gone.
CUT = ("IncompleteRead", "RemoteDisconnected", "ConnectionResetError", "TimeoutError")


@dataclass(frozen=True, kw_only=True)
class Request:
    """Times by the clock of Nomad's events."""

    began_s: float
    ended_s: float
    failure: str  # "" if it was answered in full


@contextmanager
def asking(
    address: str, path: str, body: dict[str, Any] | None = None, *, end: str = ""
) -> Iterator[list[Request]]:
    """The requests so far. An answer that does not end with `end` is not answered in full."""
    requests, over = list[Request](), threading.Event()

    def ask() -> None:
        began_s = time.time()
        failure = _ask(address, path, body, end)
        requests.append(Request(began_s=began_s, ended_s=time.time(), failure=failure))

    def ask_on() -> None:
        while not over.is_set():
            asked = at_once.submit(ask)
            for _ in range(PATIENCE):
                if over.wait(PAUSE_S) or asked.done():
                    break

    with ThreadPoolExecutor(AT_ONCE) as at_once, ThreadPoolExecutor(1) as client:
        asking_on = client.submit(ask_on)
        try:
            yield requests
        finally:
            over.set()
            asking_on.result()


def moments_in_common(requests: Iterable[Request]) -> int:
    """The least number of moments of which each request went on at one."""
    moments, latest_s = 0, -math.inf
    for request in sorted(requests, key=lambda each: each.ended_s):
        if request.began_s > latest_s:
            moments, latest_s = moments + 1, request.ended_s
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
