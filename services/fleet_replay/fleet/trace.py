"""Trace files: one JSON object per line (schemas/trace.schema.json), one line per request.

    {"timestamp": 1200, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
    {"timestamp": 1.2, "input_length": 472, "output_length": 18, "session": "a7"}

The first form is Mooncake's (FAST25 release): `hash_ids` name blocks of 512 prompt tokens, each
together with everything before it, so equal ids mean equal prefixes. The second is BurstGPT's
columns as JSON: each prompt of a session begins with the previous prompt and its answer. Without
either key a prompt shares nothing. `timestamp` is in milliseconds, as in Mooncake, or in seconds,
as in BurstGPT; the caller says which.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HASH_TOKENS = 512  # prompt tokens that one of Mooncake's hash ids stands for
UNITS_MS = {"ms": 1.0, "s": 1000.0}
MOST_TIME = 10**15  # 30,000 years in milliseconds
MOST_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arrival time is relative to the first request of the trace."""

    arrived_ms: float
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()
    session: str | None = None


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """`line` counts from 1."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The requests in order of arrival, and the broken lines."""

    requests: tuple[Request, ...]
    broken: tuple[BrokenLine, ...]

    @property
    def duration_ms(self) -> float:
        """From the first arrival to the last."""
        return self.requests[-1].arrived_ms if self.requests else 0.0


def read_trace(lines: Iterable[str], *, unit: str = "ms") -> Trace:
    """Reads every line that is a request; empty lines are neither requests nor broken."""
    requests: list[Request] = []
    broken: list[BrokenLine] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            requests.append(_request(line, UNITS_MS[unit]))
        except ValueError as error:
            broken.append(BrokenLine(number, str(error)))
    requests.sort(key=lambda request: request.arrived_ms)
    return Trace(requests=_from_zero(requests), broken=tuple(broken))


def _request(line: str, unit_ms: float) -> Request:
    """Raises ValueError with what is wrong with the line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    session = value.get("session")
    if not isinstance(session, str | int | None) or isinstance(session, bool):
        raise ValueError(f"session: {session!r} must be text or an integer")
    return Request(
        arrived_ms=_timestamp(value) * unit_ms,
        input_tokens=_tokens(value, "input_length"),
        output_tokens=_tokens(value, "output_length"),
        hash_ids=_hash_ids(value),
        session=None if session is None else str(session),
    )


def _timestamp(value: Mapping[str, Any]) -> float:
    timestamp = value.get("timestamp")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        raise ValueError(f"timestamp: {timestamp!r} must be a number")
    if not -MOST_TIME <= timestamp <= MOST_TIME:
        raise ValueError(f"timestamp: {timestamp!r} must be finite, and at most {MOST_TIME}")
    return float(timestamp)


def _tokens(value: Mapping[str, Any], key: str) -> int:
    tokens = value.get(key)
    if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"{key}: {tokens!r} must be an integer from 1 to {MOST_TOKENS}")
    return tokens


def _hash_ids(value: Mapping[str, Any]) -> tuple[int, ...]:
    ids = value.get("hash_ids", [])
    if not isinstance(ids, list) or not all(type(each) is int and each >= 0 for each in ids):
        raise ValueError("hash_ids: must be a list of integers >= 0")
    wanted = -(-value["input_length"] // HASH_TOKENS)
    if ids and len(ids) != wanted:
        raise ValueError(
            f"hash_ids: {len(ids)} ids for {value['input_length']} prompt tokens; "
            f"one for every {HASH_TOKENS} of them would be {wanted}"
        )
    return tuple(ids)


def _from_zero(requests: list[Request]) -> tuple[Request, ...]:
    first_ms = requests[0].arrived_ms if requests else 0.0
    return tuple(
        Request(
            arrived_ms=request.arrived_ms - first_ms,
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            hash_ids=request.hash_ids,
            session=request.session,
        )
        for request in requests
    )
