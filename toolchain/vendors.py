"""Which vendors can be reached: asked once in a command, all at once, and only when needed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit

from toolchain.errors import UnavailableError
from toolchain.pins import ArchivePin, tool_pins

PROBE_S = 2.0  # for all together


class Vendors:
    """The hosts of archives, and whether each has answered within PROBE_S."""

    def __init__(self, pins: Iterable[ArchivePin]) -> None:
        self._addresses = {_host(each): each for pin in pins for each in _needed(pin)}
        self._lock = threading.Lock()
        self._answered: frozenset[str] | None = None

    def silent(self, pin: ArchivePin) -> list[str]:
        """The hosts that the archive needs and that did not answer. The first call asks all."""
        with self._lock:
            if self._answered is None:
                self._answered = frozenset()
                with suppress(UnavailableError):
                    self._answered = answering(self._addresses, PROBE_S)
        silent = {_host(each) for each in _needed(pin)} & self._addresses.keys() - self._answered
        return sorted(silent)


@cache
def pinned_vendors() -> Vendors:
    """Those of pins.json."""
    return Vendors(pin.archive for pin in tool_pins().values() if pin.archive is not None)


def _needed(pin: ArchivePin) -> list[str]:
    return [pin.beside(pin.sums.file_name) if pin.sums else pin.address, *pin.also_needs]


def _host(address: str) -> str:
    return urlsplit(address).netloc


def answering(addresses: Mapping[str, str], within_s: float) -> frozenset[str]:
    """The hosts (the keys) that answer at their address, whatever they say: what each serves is
    found out by downloading it. UnavailableError where this machine cannot ask."""
    # Imported here: most commands ask nobody.
    import httpx  # noqa: PLC0415

    from toolchain.download import open_client  # noqa: PLC0415

    found: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    client = open_client(httpx.Timeout(within_s))

    def ask(host: str, address: str) -> None:
        try:
            client.head(address)
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            found.put((host, False))
        else:
            found.put((host, True))

    for host_and_address in addresses.items():
        # A look-up of a name cannot be interrupted: such a thread must not outlive the command.
        threading.Thread(target=ask, args=host_and_address, daemon=True).start()
    answered, deadline_s = set[str](), time.monotonic() + within_s
    for _ in addresses:
        try:
            host, answers = found.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except queue.Empty:
            break
        if answers:
            answered.add(host)
    return frozenset(answered)
