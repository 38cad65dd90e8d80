# mypy: disable-error-code="import-untyped"
"""Whatever changes in whichever order, Envoy ends up with what is wanted, and on the way there no
route points to a cluster that is not warm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from control_plane.building import SnapshotBuilder
from control_plane.routing import Endpoint, Route, Routing, RoutingTable
from control_plane.snapshot import ResourceType, Snapshot
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.route.v3 import scoped_route_pb2

# Imported for the descriptors that typed_config fields name.
from envoy.extensions.load_balancing_policies.least_request.v3 import (
    least_request_pb2,  # noqa: F401
)
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2  # noqa: F401
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2  # noqa: F401
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from google.protobuf import json_format
from support.gateway import Gateway, route
from support.waiting import ADDRESS, eventually

pytestmark = pytest.mark.binaries

MODELS, GENERATIONS, ALIASES = ("a", "b", "c", "d"), (1, 2, 3), ("a", "x", "y")
BURSTS, MOST_EVENTS = 10, 6
Place = tuple[str, int, str, int]
_Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _removed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters are removed soon after their routes."""
    monkeypatch.setattr("control_plane.protocol.stream.ROUTED_REQUEST_S", 0.1)


class Events:
    """Changes a table at random, one thing at a time."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._routes: dict[str, Route] = {}
        self._endpoints: dict[str, tuple[Endpoint, ...]] = {}

    def burst(self) -> list[RoutingTable]:
        return [self._event() for _ in range(self._chance.randint(1, MOST_EVENTS))]

    def restarts(self) -> bool:
        """Whether the control plane starts again now."""
        return self._chance.random() < 0.2

    def _event(self) -> RoutingTable:
        model = self._chance.choice(MODELS)
        change = self._chance.choice((self._other_route, self._other_endpoints, self._gone))
        change(model)
        routes = tuple(sorted(self._routes.values(), key=lambda each: each.model))
        names = {name for each in routes for name in each.clusters()}
        return RoutingTable(routes, {name: self._endpoints.get(name, ()) for name in names})

    def _gone(self, model: str) -> None:
        self._routes.pop(model, None)

    def _other_route(self, model: str) -> None:
        services = [f"model-{model}-{n}" for n in self._some(GENERATIONS)] or [f"model-{model}-1"]
        self._routes[model] = route(
            model,
            *services,
            aliases=tuple(self._some(ALIASES)),
            weights={services[0]: 100, **dict.fromkeys(services[1:], self._chance.choice((0, 50)))},
            routing=Routing(policy=self._chance.choice(("affinity", "least_request"))),
        )

    def _other_endpoints(self, model: str) -> None:
        for generation in self._some(GENERATIONS):
            for protocol in ("openai", "grpc"):
                self._endpoints[f"model-{model}-{generation}-{protocol}"] = tuple(
                    Endpoint(
                        ADDRESS,
                        port,
                        self._chance.random() < 0.7,
                        f"replica[{port}]",
                        weight=self._chance.choice((30, 60, 100)),
                    )
                    for port in self._some((1, 2, 3, 4))
                )

    def _some(self, values: Any) -> list[Any]:
        return [value for value in values if self._chance.random() < 0.5]


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_events_envoy_has_what_is_wanted_and_no_route_was_ever_cold(
    gateway: Gateway, seed: int
) -> None:
    events, builder = Events(seed), SnapshotBuilder(gateway.address)
    async with _no_cold_routes(gateway) as looked:
        for _ in range(BURSTS):
            for table in events.burst():
                snapshot = builder.build(table)
                gateway.hub.publish(snapshot)
                await _dump(gateway)  # meanwhile Envoy has some of it, or all
            if events.restarts():
                await gateway.restart_control_plane()
            await eventually(gateway.settled, "Envoy acknowledges the snapshot")
            await _has(gateway, snapshot, table)
    assert len(looked) >= BURSTS
    assert max(looked) > len(MODELS)  # it has seen routes


async def _has(gateway: Gateway, snapshot: Snapshot, table: RoutingTable) -> None:
    async def same() -> bool:
        found = await _dump(gateway)
        return (
            _scopes(found) == _bodies(snapshot, ResourceType.ROUTE)
            and _clusters(found) == _bodies(snapshot, ResourceType.CLUSTER)
            and _members(found) == _wanted_members(table)
        )

    await eventually(same, "Envoy has exactly the snapshot")


@contextlib.asynccontextmanager
async def _no_cold_routes(gateway: Gateway) -> AsyncIterator[list[int]]:
    """Looks all the time; fails at the end if a route ever had a cluster that was not active."""
    looked, cold = list[int](), set[str]()

    async def look() -> None:
        while True:
            found = await _dump(gateway)
            active = set(_clusters(found))
            routed = {name for body in _scope_documents(found).values() for name in _uses(body)}
            cold.update(routed - active)
            looked.append(len(routed))

    looking = asyncio.create_task(look())
    try:
        yield looked
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    assert cold == set()


async def _dump(gateway: Gateway) -> dict[str, _Json]:
    """By the name of its message."""
    parts = json.loads(await gateway.admin("/config_dump?include_eds"))["configs"]
    return {part["@type"].rpartition(".")[2]: part for part in parts}


def _scope_documents(dump: Mapping[str, _Json]) -> dict[str, _Json]:
    found = {}
    for group in dump.get("ScopedRoutesConfigDump", {}).get("dynamic_scoped_route_configs", []):
        for each in group.get("scoped_route_configs", []):
            document = {key: value for key, value in each.items() if key != "@type"}
            found[document["name"]] = document
    return found


def _uses(document: Any) -> set[str]:
    """Names of clusters anywhere in a scope."""
    if isinstance(document, list):
        return {name for each in document for name in _uses(each)}
    if not isinstance(document, dict):
        return set()
    own = {document["cluster"]} if isinstance(document.get("cluster"), str) else set()
    weighted = document.get("weighted_clusters", {}).get("clusters", [])
    return own | {each["name"] for each in weighted} | _uses(list(document.values()))


def _scopes(dump: Mapping[str, _Json]) -> dict[str, bytes]:
    return {
        name: _bytes(document, scoped_route_pb2.ScopedRouteConfiguration())
        for name, document in _scope_documents(dump).items()
    }


def _clusters(dump: Mapping[str, _Json]) -> dict[str, bytes]:
    found = {}
    for each in dump.get("ClustersConfigDump", {}).get("dynamic_active_clusters", []):
        document = {key: value for key, value in each["cluster"].items() if key != "@type"}
        found[document["name"]] = _bytes(document, cluster_pb2.Cluster())
    return found


def _bytes(document: _Json, message: Any) -> bytes:
    return bytes(json_format.ParseDict(document, message).SerializeToString(deterministic=True))


def _bodies(snapshot: Snapshot, kind: ResourceType) -> dict[str, bytes]:
    return {name: resource.body for name, resource in snapshot.of(kind).items()}


def _members(dump: Mapping[str, _Json]) -> dict[str, set[Place]]:
    found: dict[str, set[Place]] = {}
    for each in dump.get("EndpointsConfigDump", {}).get("dynamic_endpoint_configs", []):
        config = each["endpoint_config"]
        members = [
            m for group in config.get("endpoints", []) for m in group.get("lb_endpoints", [])
        ]
        found[config["cluster_name"]] = {
            (
                member["endpoint"]["address"]["socket_address"]["address"],
                member["endpoint"]["address"]["socket_address"]["port_value"],
                member.get("health_status", "UNKNOWN"),
                member["load_balancing_weight"],
            )
            for member in members
        }
    return found


def _wanted_members(table: RoutingTable) -> dict[str, set[Place]]:
    found = {}
    keyed = {name for each in table.routes for name in each.clusters_with_keys()}
    for cluster, members in table.endpoints.items():
        equal = cluster not in keyed or len({member.weight for member in members}) == 1
        found[cluster] = {
            (
                member.address,
                member.port,
                "HEALTHY" if member.healthy else "UNHEALTHY",
                1 if equal else member.weight,
            )
            for member in members
        }
    return found
