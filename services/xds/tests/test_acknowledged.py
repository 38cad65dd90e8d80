"""Where Envoys send requests, by what they have acknowledged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from control_plane.acknowledged import RouteVersions
from control_plane.building import build
from control_plane.hub import Published
from control_plane.resources.listener import GatewayAddress
from control_plane.routing import RoutingTable
from control_plane.server import Envoy
from control_plane.snapshot import Snapshot, changed
from support.connected import envoy
from support.gateway import route
from support.scripted_client import CLUSTER, ENDPOINTS, ROUTE, ScriptedClient

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "schemas/acknowledged.schema.json").read_text(encoding="utf-8")
)


def snapshot(service: str) -> Snapshot:
    """The model `tiny` on one service."""
    return build(RoutingTable((route("tiny", service),), {}), GatewayAddress("10.0.0.9", 8080))


OLD, NEW = snapshot("model-tiny-old"), snapshot("model-tiny-new")


def acknowledged(*envoys: Envoy, published: tuple[Snapshot, ...] = (OLD, NEW)) -> Any:
    versions = RouteVersions()
    for before, each in zip((None, *published), published, strict=False):
        versions.published(Published(each, changed(before, each)))
    document = versions.acknowledged(envoys)
    jsonschema.validate(document, SCHEMA)
    return document["envoys"]


def test_each_envoy_is_shown_with_the_routes_that_it_has_acknowledged() -> None:
    assert acknowledged(envoy(NEW, "b"), envoy(OLD, "a")) == [
        {"node": "a", "routes": {"tiny": ["model-tiny-old"]}},
        {"node": "b", "routes": {"tiny": ["model-tiny-new"]}},
    ]


class Moving:
    """An Envoy on the old routes that has just been sent the new ones."""

    def __init__(self) -> None:
        self.client = ScriptedClient()
        self.client.publish(OLD)
        self.client.ask(CLUSTER)
        self.client.ask(ENDPOINTS, *OLD.of(ENDPOINTS))
        self.client.ask(ROUTE)
        self.client.ack_all()
        self.client.publish(NEW)
        self.client.ask(ENDPOINTS, *NEW.of(ENDPOINTS))
        while self.client.inbox[0].resource_type is not ROUTE:
            self.client.ack(self.client.inbox[0])
        self.sent = self.client.inbox[0]

    def routes(self) -> Any:
        stream = Envoy(stream=self.client.stream, peer="", connected_s=0, node="gateway")
        return acknowledged(stream)[0]["routes"]


def test_the_routes_of_an_envoy_are_unknown_until_it_has_answered_for_the_new_ones() -> None:
    """It may have applied them already."""
    moving = Moving()
    assert moving.routes() is None

    moving.client.ack(moving.sent)
    assert moving.routes() == {"tiny": ["model-tiny-new"]}


def test_an_envoy_that_rejects_the_new_routes_still_has_the_old_ones() -> None:
    moving = Moving()
    moving.client.reject(moving.sent)
    assert moving.routes() == {"tiny": ["model-tiny-old"]}


def test_routes_taken_back_before_an_answer_are_not_the_old_ones_again() -> None:
    """The answer may still come, and then the Envoy has the new ones."""
    moving = Moving()
    moving.client.publish(OLD)
    moving.client.after(6)  # longer than an answer may take
    assert moving.routes() is None

    moving.client.ack(moving.sent)
    moving.client.ack_all()
    assert moving.routes() == {"tiny": ["model-tiny-old"]}


def test_routes_that_this_control_plane_never_sent_are_unknown() -> None:
    assert acknowledged(envoy(OLD), published=(NEW,)) == [{"node": "gateway", "routes": None}]


def test_an_envoy_that_has_acknowledged_nothing_yet_has_unknown_routes() -> None:
    assert acknowledged(envoy(None)) == [{"node": "gateway", "routes": None}]


def test_a_stream_that_has_not_said_whose_it_is_is_left_out() -> None:
    assert acknowledged(envoy(None, node="")) == []


def test_an_envoy_with_two_streams_is_shown_twice() -> None:
    routes = [each["routes"] for each in acknowledged(envoy(OLD), envoy(NEW))]
    assert routes == [{"tiny": ["model-tiny-old"]}, {"tiny": ["model-tiny-new"]}]


def test_a_version_that_returns_is_remembered_as_the_newest() -> None:
    others = tuple(snapshot(f"model-tiny-{number}") for number in range(15))
    published = (OLD, *others, OLD, NEW)
    assert acknowledged(envoy(OLD), published=published)[0]["routes"] is not None


def test_a_backend_without_weight_is_not_a_destination() -> None:
    split = route("tiny", "model-b", "model-a", "model-c", weights={"model-c": 0})
    table = RoutingTable((split,), {})
    current = build(table, GatewayAddress("10.0.0.9", 8080))
    shown = acknowledged(envoy(current), published=(current,))
    assert shown[0]["routes"] == {"tiny": ["model-a", "model-b"]}


def test_a_model_is_on_a_service_while_one_of_its_names_is() -> None:
    """An Envoy may hold the new scope of the name and the old one of the alias."""

    def aliased(service: str) -> Snapshot:
        table = RoutingTable((route("tiny", service, aliases=("small",)),), {})
        return build(table, GatewayAddress("10.0.0.9", 8080))

    old, new = aliased("model-tiny-old"), aliased("model-tiny-new")
    client = ScriptedClient()
    client.publish(old)
    client.ask(ROUTE)
    client.ack_all()
    client.publish(new)
    (moved,) = client.inbox
    client.reject(moved)  # each half is tried alone
    client.ack(client.inbox[0])
    client.reject(client.inbox[0])
    half = Envoy(stream=client.stream, peer="", connected_s=0, node="gateway")
    shown = acknowledged(half, published=(old, new))[0]["routes"]
    assert shown == {"tiny": ["model-tiny-new", "model-tiny-old"]}
