"""Where the gateway sends a key: Envoy's Maglev table, built from the same endpoints.

The algorithm is that of Envoy 1.40 (source/extensions/load_balancing_policies/maglev/maglev_lb.cc),
with the keys of resources/request.lua. What only an Envoy knows is left out: its own health checks,
and replicas that are over their bound at the moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from .resources.load_balancing import TABLE_SIZE
from .routing import HTTP, Endpoint, Route, RoutingTable

_32_BITS = 0xFFFF_FFFF
_Json = dict[str, Any]


@dataclass
class _Entry:
    """A replica while the table is filled."""

    position: int  # among the endpoints
    offset: int
    skip: int
    weight: float
    target: float = 0.0
    next: int = 0


def maglev_table(endpoints: Sequence[Endpoint], size: int = TABLE_SIZE) -> list[int]:
    """For each slot the position of its endpoint; empty without endpoints. `size` is a prime."""
    total = sum(endpoint.weight for endpoint in endpoints)
    entries = [_entry(n, each, total, size) for n, each in enumerate(endpoints)]
    entries.sort(key=lambda entry: _hash_key(endpoints[entry.position]))
    greatest = max((entry.weight for entry in entries), default=0.0)
    table = [-1] * size
    filled, iteration = 0, 0
    while entries and filled < size:
        iteration += 1
        for entry in entries:
            if filled == size:
                break
            if iteration * entry.weight < entry.target:
                continue
            entry.target += greatest
            while table[slot := (entry.offset + entry.skip * entry.next) % size] >= 0:
                entry.next += 1
            table[slot] = entry.position
            entry.next += 1
            filled += 1
    return table if entries else []


def chosen(table: Sequence[int], key: str) -> int:
    """The position of the endpoint that gets a key."""
    return table[xxhash.xxh64_intdigest(key.encode()) % len(table)]


def session_key(model: str, session: str) -> str:
    """The key of a session header's value."""
    return _key(session, f"{model}/session")


def user_key(model: str, user: str) -> str:
    """The key of the user that a body names: it is hashed as it is written in JSON."""
    return _key(f'"{user}"', f"{model}/user")


def placement(route: Route, table: RoutingTable, key: str | None) -> _Json:
    """The document of schemas/placement.schema.json: the replicas of each backend over HTTP, their
    parts of the keys, and which one gets `key`, as the session or the user of a request, where the
    backend gets any."""
    return {
        "schema_version": 1,
        "model": route.model,
        "routing": route.routing.model_dump(mode="json"),
        "backends": [
            {
                "service": backend.service,
                "weight": backend.weight,
                **_of_backend(
                    route,
                    table.endpoints.get(backend.cluster(HTTP), ()),
                    key if backend.weight else None,
                ),
            }
            for backend in route.backends
        ],
    }


def _of_backend(route: Route, endpoints: Sequence[Endpoint], key: str | None) -> _Json:
    keyed = route.routing.has_key(HTTP)
    used = [endpoint for endpoint in endpoints if endpoint.in_use]
    slots = maglev_table(used) if keyed else []
    counts = {place: slots.count(place) for place in range(len(used))}
    shares = {used[place]: count / len(slots) for place, count in counts.items() if slots}
    keys = _keys(route, key) if key is not None and slots else {}
    return {
        "replicas": [
            {
                "replica": endpoint.replica,
                "address": f"{endpoint.address}:{endpoint.port}",
                "healthy": endpoint.healthy,
                "held": endpoint.held,
                "weight": endpoint.weight,
                "share": round(shares[endpoint], 4) if endpoint in shares else None,
            }
            for endpoint in endpoints
        ],
        "chosen": {source: used[chosen(slots, value)].replica for source, value in keys.items()},
    }


def _keys(route: Route, key: str) -> Mapping[str, str]:
    routing = route.routing
    session = {"session": session_key(route.model, key)} if routing.session_header else {}
    return session if routing.key == "session" else {**session, "user": user_key(route.model, key)}


def _entry(position: int, endpoint: Endpoint, total: int, size: int) -> _Entry:
    name = _hash_key(endpoint)
    return _Entry(
        position=position,
        offset=xxhash.xxh64_intdigest(name) % size,
        skip=xxhash.xxh64_intdigest(name, seed=1) % (size - 1) + 1,
        weight=endpoint.weight / total,
    )


def _hash_key(endpoint: Endpoint) -> bytes:
    """As resources name it (protobuf.cluster_load_assignment), else Envoy takes the address."""
    return (endpoint.replica or f"{endpoint.address}:{endpoint.port}").encode()


def _key(text: str, seed: str) -> str:
    one, two = 1, 2
    for char in (*seed.encode(), *text.encode()):
        one = _rotated(one * 524_287, 7) ^ char
        two = _rotated(two * 131_071 + 40_503, 13) ^ char
    return f"{one:08x}{two:08x}"


def _rotated(value: int, bits: int) -> int:
    value &= _32_BITS
    return (value << bits | value >> (32 - bits)) & _32_BITS
