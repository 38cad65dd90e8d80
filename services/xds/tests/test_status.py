"""When a model counts as acknowledged, and when as ready."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from control_plane.building import build
from control_plane.resources.listener import GatewayAddress
from control_plane.routing import Endpoint, RoutingTable
from control_plane.server import Envoy
from control_plane.snapshot import Snapshot
from control_plane.status import status
from support.connected import envoy
from support.gateway import route

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "schemas/status.schema.json").read_text(encoding="utf-8")
)
TINY = route("tiny", aliases=("small",))
UP = (Endpoint("10.0.0.1", 1, True),)
DOWN = (Endpoint("10.0.0.1", 1, False),)


def table(openai: tuple[Endpoint, ...] = UP, grpc: tuple[Endpoint, ...] = UP) -> RoutingTable:
    return RoutingTable((TINY,), {"model-tiny-1-openai": openai, "model-tiny-1-grpc": grpc})


def snapshot(of: RoutingTable) -> Snapshot:
    return build(of, GatewayAddress("10.0.0.9", 8080))


def tiny(of: RoutingTable, *envoys: Envoy) -> dict[str, Any]:
    document = status(
        of, snapshot(of), envoys, problems={"broken": "no backends"}, consul_stale_s=0, now_s=1
    )
    jsonschema.validate(document, SCHEMA)
    return dict(document["models"]["tiny"])


def test_a_model_that_every_envoy_holds_and_that_has_replicas_is_ready() -> None:
    current = table()
    model = tiny(current, envoy(snapshot(current), "a"), envoy(snapshot(current), "b"))

    assert (model["acknowledged"], model["ready"]) == (True, True)
    assert model["aliases"] == ["small"]
    assert model["route"]["acknowledged_by"] == {"a": True, "b": True}
    cluster = model["backends"][0]["clusters"]["model-tiny-1-openai"]
    assert cluster["endpoints"] == [
        {"address": "10.0.0.1", "port": 1, "healthy": True, "held": False}
    ]
    assert (cluster["healthy"], cluster["acknowledged_by"]) == (1, {"a": True, "b": True})


def test_one_envoy_that_lags_makes_a_model_unacknowledged() -> None:
    current = table()
    model = tiny(current, envoy(snapshot(current), "a"), envoy(None, "b"))

    assert (model["acknowledged"], model["ready"]) == (False, False)
    assert model["route"]["acknowledged_by"] == {"a": True, "b": False}


def test_endpoints_that_an_envoy_has_not_acknowledged_yet_count() -> None:
    model = tiny(table(), envoy(snapshot(table(openai=DOWN))))

    assert not model["acknowledged"]
    assert model["route"]["acknowledged_by"] == {"gateway": True}


def test_without_an_envoy_nothing_is_acknowledged() -> None:
    assert not tiny(table())["acknowledged"]


def test_a_protocol_without_a_healthy_replica_is_acknowledged_but_not_ready() -> None:
    current = table(grpc=DOWN)
    model = tiny(current, envoy(snapshot(current)))

    assert (model["acknowledged"], model["ready"]) == (True, False)


def test_an_alias_that_another_model_has_is_named_with_its_owner() -> None:
    other = route("small", aliases=("tiny", "mine"))
    both = RoutingTable((other, TINY), {})
    document = status(both, snapshot(both), [], problems={}, consul_stale_s=0, now_s=1)
    jsonschema.validate(document, SCHEMA)

    taken = {name: model["taken_aliases"] for name, model in document["models"].items()}
    assert taken == {"small": {"tiny": "tiny"}, "tiny": {"small": "small"}}


def test_before_the_first_table_there_are_no_models() -> None:
    document = status(None, None, [], problems={}, consul_stale_s=2.5, now_s=1)
    jsonschema.validate(document, SCHEMA)

    assert document["models"] == {}
    assert document["consul"] == {"stale_s": 2.5, "synced": False}
