"""A gateway that is compared with others: how it is started, and what runs then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.gateway.load import Address

DIRECT = "direct to one replica"


class LeftOutError(Exception):
    """A contender cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a contender runs: an IP address and a folder of its own. `replicas` are what it sends
    requests to."""

    host: str
    folder: Path
    replicas: Sequence[Address]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A started contender; it may still refuse requests. `log` says why if it never answers."""

    address: Address
    processes: tuple[psutil.Popen, ...]
    log: Path


Start = Callable[[Place], AbstractContextManager[Running]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`start` may raise LeftOutError. `concurrencies` are those at which it is measured; None: at
    all."""

    name: str
    start: Start
    concurrencies: frozenset[int] | None = None

    def is_measured_at(self, concurrency: int) -> bool:
        return self.concurrencies is None or concurrency in self.concurrencies
