"""What a real Envoy refuses must not hold back the rest."""

from __future__ import annotations

import dataclasses

import aiohttp
import pytest
from control_plane.building import build
from control_plane.protobuf import cluster
from control_plane.routing import RoutingTable
from control_plane.snapshot import Resource, ResourceType
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from support.waiting import eventually

pytestmark = pytest.mark.binaries


async def test_one_bad_cluster_is_found_and_the_others_become_active(gateway: Gateway) -> None:
    routes = tuple(route(f"m{number}") for number in range(25))
    names = [name for entry in routes for name in entry.clusters()]
    snapshot = build(RoutingTable(routes, dict.fromkeys(names, ())), gateway.address)
    clusters = dict(snapshot.of(ResourceType.CLUSTER))
    bad = {"name": "bad", "connect_timeout": "-1s"}  # violates the API's own validation
    clusters["bad"] = Resource("bad", cluster(bad))
    resources = {**snapshot.resources, ResourceType.CLUSTER: clusters}

    gateway.hub.publish(dataclasses.replace(snapshot, resources=resources))
    (envoy,) = gateway.service.envoys
    await eventually(
        lambda: all(envoy.stream.acknowledged(ResourceType.CLUSTER, name) for name in names),
        "every good cluster is acknowledged",
    )
    version = snapshot.version(ResourceType.ROUTE, "slipway")
    await eventually(
        lambda: envoy.stream.acknowledged(ResourceType.ROUTE, "slipway") == version,
        "the routes follow",
    )

    assert envoy.stream.quarantined() == {"bad": clusters["bad"].version}
    assert envoy.stream.acknowledged(ResourceType.CLUSTER, "bad") is None


async def test_a_rejected_change_leaves_the_last_good_configuration_in_place(
    gateway: Gateway, blue: FakeReplica, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    assert gateway.hub.current is not None
    bad = {"name": "model-tiny-1-openai", "connect_timeout": "-1s"}
    clusters = dict(gateway.hub.current.of(ResourceType.CLUSTER))
    clusters[bad["name"]] = Resource(bad["name"], cluster(bad))
    resources = {**gateway.hub.current.resources, ResourceType.CLUSTER: clusters}

    gateway.hub.publish(dataclasses.replace(gateway.hub.current, resources=resources))
    (envoy,) = gateway.service.envoys
    await eventually(lambda: "model-tiny-1-openai" in envoy.stream.quarantined(), "the rejection")

    said = "model-tiny-1-openai is quarantined"
    await eventually(lambda: said in caplog.text, "the log names it")
    body = {"model": "tiny"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/completions", json=body) as response,
    ):
        assert response.status == 200


async def test_an_envoy_that_comes_back_is_sent_nothing(
    gateway: Gateway, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    sent = gateway.metrics.response_bytes.labels("cluster")._value.get()

    await gateway.restart_control_plane()
    await eventually(gateway.settled, "Envoy is back and holds everything")

    assert sent > 0
    for kind in ResourceType:
        label = kind.name.lower()
        assert gateway.metrics.response_bytes.labels(label)._value.get() == 0, label
