"""Snapshots built one after the other are those built from nothing, and share what is the same."""

from __future__ import annotations

import dataclasses

import pytest
from control_plane.building import SnapshotBuilder, build
from control_plane.hub import Hub, Published
from control_plane.resources.listener import GatewayAddress
from control_plane.resources.routes import NO_MODEL
from control_plane.resources.runtime import LAYERS, layer_of
from control_plane.routing import Endpoint, Policy, Route, Routing, RoutingTable
from control_plane.snapshot import ResourceType, changed
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gateway import route

GATEWAY = GatewayAddress("10.0.0.9", 8080)

models = st.sampled_from(["a", "b", "c", "d"])
routes = st.builds(
    lambda model, generation, limit, aliases, weights, policy: route(
        model,
        *(f"model-{model}-{g}" for g in sorted(generation)),
        aliases=tuple(sorted(aliases)),
        weights={f"model-{model}-{g}": weights.get(g, 100) for g in generation},
        max_concurrent_requests_per_replica=limit,
        routing=Routing(policy=policy),
    ),
    models,
    st.sets(st.integers(1, 3), min_size=1, max_size=2),
    st.integers(1, 2),
    st.sets(st.sampled_from(["a", "x", "y"]), max_size=2),
    st.dictionaries(st.integers(1, 3), st.integers(1, 2), max_size=2),
    st.sampled_from(["affinity", "least_request"]),
)
endpoints = st.frozensets(
    st.builds(
        Endpoint,
        st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        st.integers(1, 2),
        st.booleans(),
        st.sampled_from(["", "r[0]", "r[1]"]),
        weight=st.sampled_from([30, 100]),
    ),
    max_size=3,
).map(lambda found: tuple(sorted(found)))
clusters = st.sampled_from(
    [f"model-{m}-{g}-{p}" for m in "abcd" for g in (1, 2, 3) for p in ("openai", "grpc")]
)
tables = st.builds(
    lambda found, known: table(found, known),  # noqa: PLW0108 (it is defined below)
    st.lists(routes, max_size=4, unique_by=lambda route: route.model),
    st.dictionaries(clusters, endpoints, max_size=6),
)


def table(routes: list[Route], known: dict[str, tuple[Endpoint, ...]]) -> RoutingTable:
    served = tuple(sorted(routes, key=lambda route: route.model))
    names = [cluster for route in served for cluster in route.clusters()]
    return RoutingTable(served, {name: known.get(name, ()) for name in names})


@settings(max_examples=60)
@given(st.lists(tables, min_size=1, max_size=5))
def test_any_sequence_of_tables_gives_the_snapshots_that_each_alone_gives(
    sequence: list[RoutingTable],
) -> None:
    builder = SnapshotBuilder(GATEWAY)
    before = None
    for each in sequence:
        built = builder.build(each)
        assert built == build(each, GATEWAY)
        for kind in ResourceType:
            for name, resource in built.of(kind).items():
                same = before is not None and before.version(kind, name) == resource.version
                assert not same or name not in changed(before, built).get(kind, ())
        before = built


SERVED = tuple(route(f"m{number}", max_concurrent_requests_per_replica=8) for number in range(1000))
HERE, THERE = Endpoint("10.0.0.1", 1, True), Endpoint("10.0.0.2", 1, True)
DOWN = dataclasses.replace(THERE, healthy=False)
ALL = RoutingTable(SERVED, {name: (HERE, THERE) for r in SERVED for name in r.clusters()})
FLIPPED = RoutingTable(
    SERVED,
    {**ALL.endpoints, "model-m7-1-openai": (HERE, dataclasses.replace(THERE, healthy=False))},
)


@pytest.fixture(scope="module")
def builder() -> SnapshotBuilder:
    """Of a thousand models, which take a second to build."""
    return SnapshotBuilder(GATEWAY)


def test_one_health_flip_among_a_thousand_models_sends_its_endpoints_and_one_layer(
    builder: SnapshotBuilder,
) -> None:
    before, after = builder.build(ALL), builder.build(FLIPPED)
    assert changed(before, after) == {
        ResourceType.ENDPOINTS: {"model-m7-1-openai"},
        ResourceType.RUNTIME: {layer_of("m7")},
    }
    layers = after.of(ResourceType.RUNTIME)
    assert len(layers[layer_of("m7")].body) <= sum(len(layers[name].body) for name in LAYERS) / 10


def test_one_changed_model_among_a_thousand_sends_its_clusters_and_one_layer(
    builder: SnapshotBuilder,
) -> None:
    other = SERVED[7].model_copy(update={"max_concurrent_requests_per_replica": 16})
    routes = (*SERVED[:7], other, *SERVED[8:])
    before, after = builder.build(ALL), builder.build(RoutingTable(routes, ALL.endpoints))
    assert changed(before, after) == {
        ResourceType.CLUSTER: {"model-m7-1-openai", "model-m7-1-grpc"},
        ResourceType.RUNTIME: {layer_of("m7")},
    }


def test_what_is_the_same_is_not_built_again(builder: SnapshotBuilder) -> None:
    before, after = builder.build(ALL), builder.build(FLIPPED)
    for kind in (ResourceType.CLUSTER, ResourceType.LISTENER, ResourceType.ROUTE):
        assert after.of(kind) is before.of(kind)
    old, new = before.of(ResourceType.ENDPOINTS), after.of(ResourceType.ENDPOINTS)
    assert [name for name in old if old[name] is not new[name]] == ["model-m7-1-openai"]


def test_a_new_model_changes_its_own_scope_and_the_list_of_models_only() -> None:
    builder = SnapshotBuilder(GATEWAY)
    one = builder.build(table([route("a")], {}))
    two = builder.build(table([route("a"), route("b", aliases=("x",))], {}))
    assert changed(one, two)[ResourceType.ROUTE] == {"b", "x", NO_MODEL}


def test_weights_reach_clusters_with_keys_only() -> None:
    low = dataclasses.replace(HERE, weight=30)

    def built(policy: Policy, *members: Endpoint) -> bytes:
        served = table([route("a", routing=Routing(policy=policy))], {"model-a-1-openai": members})
        return build(served, GATEWAY).of(ResourceType.ENDPOINTS)["model-a-1-openai"].body

    assert built("affinity", low, THERE) != built("affinity", HERE, THERE)
    assert built("least_request", low, THERE) == built("least_request", HERE, THERE)


def test_a_hub_passes_on_nothing_that_is_as_before() -> None:
    hub, seen = Hub(), list[Published]()
    hub.subscribe(seen.append)
    assert hub.publish(build(table([route("a")], {}), GATEWAY))
    assert not hub.publish(build(table([route("a")], {}), GATEWAY))
    assert len(seen) == 1
