"""Policies that choose the replica for a request."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from fleet.trace import Request

_SEED = 20261121
_BALANCE_FACTOR = 1.25  # a replica's load over the mean; Envoy's hash_balance_factor of 125
_64_BITS = (1 << 64) - 1


class Target(Protocol):
    """A ready replica; its number is never reused."""

    @property
    def number(self) -> int: ...
    @property
    def in_flight(self) -> int: ...


T = TypeVar("T", bound=Target)


class RoundRobin:
    def __init__(self) -> None:
        self._turn = -1

    def pick(self, ready: Sequence[T], request: Request) -> T:  # noqa: ARG002
        self._turn += 1
        return ready[self._turn % len(ready)]


class LeastRequest:
    """The gateway's policy, Envoy's with choice_count 2: the less busy of two random picks."""

    def __init__(self) -> None:
        self._random = random.Random(_SEED)  # noqa: S311 - no secret

    def pick(self, ready: Sequence[T], request: Request) -> T:  # noqa: ARG002
        first, second = self._random.choice(ready), self._random.choice(ready)
        return second if second.in_flight < first.in_flight else first


class PrefixHash:
    """Prompts with the same start go to the same replica, unless that one is overloaded.

    Rendezvous hashing with bounded load (Mirrokni et al. 2018): when a replica comes or goes, only
    its share of the prompts moves.
    """

    def __init__(self) -> None:
        self._fallback = LeastRequest()

    def pick(self, ready: Sequence[T], request: Request) -> T:
        key = _prefix(request)
        if key is None:
            return self._fallback.pick(ready, request)
        total = 1 + sum(replica.in_flight for replica in ready)
        bound = math.ceil(_BALANCE_FACTOR * total / len(ready))
        open_ones = [replica for replica in ready if replica.in_flight < bound]
        return max(open_ones, key=lambda replica: _mixed(key, replica.number))


ROUTERS: Mapping[str, type[RoundRobin] | type[LeastRequest] | type[PrefixHash]] = {
    "least_request": LeastRequest,
    "round_robin": RoundRobin,
    "prefix_hash": PrefixHash,
}


def _prefix(request: Request) -> int | None:
    """What distinguishes two prompts for a gateway: their first block, or their session."""
    if request.hash_ids:
        return request.hash_ids[0]
    return None if request.session is None else zlib.crc32(request.session.encode())


def _mixed(key: int, number: int) -> int:
    """SplitMix64's output function: similar inputs give very different outputs."""
    value = (key * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & _64_BITS
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return value ^ (value >> 31)
