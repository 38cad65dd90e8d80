"""Built resources, compared whole. After a wanted change: UPDATE_GOLDEN=1 pytest, then review."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from control_plane.building import build
from control_plane.resources.clusters import clusters
from control_plane.resources.listener import GatewayAddress, listener
from control_plane.resources.routes import default_scope, names_of, scope_of
from control_plane.resources.runtime import layer_of, limits
from control_plane.resources.upstream_tls import transport_socket
from control_plane.routing import Endpoint, Routing, RoutingTable
from control_plane.snapshot import ResourceType
from support.bootstrap import gateway_transport_socket
from support.gateway import route

GOLDEN = Path(__file__).parent / "golden"
GATEWAY = GatewayAddress("10.0.0.1", 8080)

TINY = route(
    "tiny",
    "model-tiny-1",
    "model-tiny-2",
    aliases=("small",),
    routing=Routing(session_header="x-session-id", bound_percent=125),
)
BIG = route("big", max_concurrent_requests_per_replica=8, stream_idle_timeout_s=30)
FAR = route("far", server_name="replica.metal.slipway", protocols=("http",))
TABLE = RoutingTable(
    (BIG, TINY),
    {
        "model-big-1-openai": (Endpoint("10.0.0.2", 1, True), Endpoint("10.0.0.3", 1, True)),
        "model-big-1-grpc": (Endpoint("10.0.0.2", 2, True), Endpoint("10.0.0.3", 2, False)),
    },
)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("clusters", clusters(TABLE.routes)),
        ("clusters-over-tls", clusters((FAR,))),
        ("listener", listener(GATEWAY)),
        ("listener-at-a-shared-address", listener(GatewayAddress("10.0.0.1", 8080, "10.0.0.9"))),
        ("scope-by-affinity", scope_of("tiny", TINY)),
        ("scope-of-one-protocol", scope_of("far", FAR)),
        ("default-scope", default_scope(names_of((*TABLE.routes, FAR)))),
        ("runtime", limits(TABLE.routes, TABLE.endpoints)),
    ],
)
def test_resources_are_as_reviewed(name: str, document: dict[str, Any]) -> None:
    path = GOLDEN / f"{name}.json"
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")


def test_a_dead_host_is_asked_and_waited_for_no_longer_than_5_s() -> None:
    cluster = clusters((FAR,))["model-far-1-openai"]
    (check,) = cluster["health_checks"]
    checked_s = seconds(check["interval"]) + seconds(check["timeout"])
    assert check["unhealthy_threshold"] * checked_s <= 5
    (options,) = cluster["typed_extension_protocol_options"].values()
    pings = options["auto_config"]["http2_protocol_options"]["connection_keepalive"]
    assert 1.15 * seconds(pings["interval"]) + seconds(pings["timeout"]) <= 5


def seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def test_the_gateway_speaks_tls_to_replicas_as_to_its_control_plane() -> None:
    name = "replica.metal.slipway"
    assert transport_socket(name) == gateway_transport_socket(name)


def test_versions_depend_on_content_only() -> None:
    again = RoutingTable(TABLE.routes, {k: TABLE.endpoints[k] for k in sorted(TABLE.endpoints)})
    shuffled = RoutingTable(
        TABLE.routes, {name: members[::-1] for name, members in TABLE.endpoints.items()}
    )

    assert build(TABLE, GATEWAY) == build(again, GATEWAY) == build(shuffled, GATEWAY)


def test_an_endpoint_change_changes_one_assignment_and_the_limits_and_nothing_else() -> None:
    one = {**TABLE.endpoints, "model-big-1-openai": (Endpoint("10.0.0.2", 1, True),)}
    before, after = build(TABLE, GATEWAY), build(RoutingTable(TABLE.routes, one), GATEWAY)

    changed = {
        (kind, name)
        for kind in ResourceType
        for name in before.of(kind)
        if before.version(kind, name) != after.version(kind, name)
    }

    assert changed == {
        (ResourceType.ENDPOINTS, "model-big-1-openai"),
        (ResourceType.RUNTIME, layer_of("big")),
    }


def test_a_models_own_name_beats_an_alias_and_the_first_alias_wins() -> None:
    routes = (route("a", aliases=("b", "x")), route("b"), route("c", aliases=("x",)))

    owners = {name: owner.model for name, owner in names_of(routes).items()}

    assert owners == {"a": "a", "b": "b", "c": "c", "x": "a"}


def test_a_backend_without_weight_has_clusters_but_holds_back_no_route() -> None:
    table = RoutingTable((route("tiny", "model-a", "model-b", weights={"model-b": 0}),), {})

    snapshot = build(table, GATEWAY)

    assert "model-b-openai" in snapshot.of(ResourceType.CLUSTER)
    scope = snapshot.of(ResourceType.ROUTE)["tiny"]
    assert scope.needs == {"model-a-openai", "model-a-grpc"}
