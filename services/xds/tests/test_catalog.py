"""Which routes can be served, and when."""

from __future__ import annotations

import pytest
from control_plane.routing import Endpoint
from control_plane.sources.catalog import Catalog
from support.gateway import route

HERE = (Endpoint("10.0.0.1", 1, True),)
TINY_1 = route("tiny", "model-tiny-1")
TINY_2 = route("tiny", "model-tiny-2")


@pytest.fixture
def catalog() -> Catalog:
    """Serves TINY_1."""
    catalog = Catalog()
    catalog.put_weights({})
    catalog.put_routes([TINY_1], {})
    for cluster in TINY_1.clusters():
        catalog.put_endpoints(cluster, HERE)
    return catalog


def served(catalog: Catalog) -> list[str]:
    table = catalog.table()
    assert table is not None
    return [backend.service for route in table.routes for backend in route.backends]


def test_there_is_no_table_before_all_of_it_is_known() -> None:
    catalog = Catalog()
    catalog.put_weights({})
    assert catalog.table() is None
    catalog.put_routes([TINY_1], {})
    catalog.put_endpoints("model-tiny-1-openai", HERE)
    assert catalog.table() is None

    catalog.put_endpoints("model-tiny-1-grpc", ())

    assert served(catalog) == ["model-tiny-1"]


def test_no_routes_at_all_is_a_table() -> None:
    catalog = Catalog()
    catalog.put_weights({})
    catalog.put_routes([], {})

    assert served(catalog) == []


def test_a_new_backend_is_served_once_both_its_protocols_are_known(catalog: Catalog) -> None:
    catalog.put_routes([TINY_2], {})
    catalog.put_endpoints("model-tiny-2-openai", HERE)
    assert served(catalog) == ["model-tiny-1"]
    assert set(TINY_1.clusters()) | set(TINY_2.clusters()) == catalog.clusters()

    catalog.put_endpoints("model-tiny-2-grpc", HERE)

    assert served(catalog) == ["model-tiny-2"]
    assert set(TINY_2.clusters()) == catalog.clusters()


def test_the_previous_backend_keeps_its_replicas_until_the_new_one_is_known(
    catalog: Catalog,
) -> None:
    catalog.put_routes([TINY_2], {})
    for cluster in TINY_1.clusters():  # the previous job is already gone from Consul
        catalog.put_endpoints(cluster, ())

    table = catalog.table()
    assert table is not None
    assert table.endpoints == dict.fromkeys(TINY_1.clusters(), HERE)


def test_a_backend_that_loses_its_replicas_with_no_successor_is_empty(catalog: Catalog) -> None:
    catalog.put_endpoints("model-tiny-1-grpc", ())

    table = catalog.table()
    assert table is not None
    assert table.endpoints["model-tiny-1-grpc"] == ()


def test_a_new_model_does_not_hold_back_the_others(catalog: Catalog) -> None:
    catalog.put_routes([TINY_1, route("big")], {})
    catalog.put_endpoints("model-tiny-1-openai", ())

    table = catalog.table()

    assert served(catalog) == ["model-tiny-1"]
    assert table is not None
    assert table.endpoints["model-tiny-1-openai"] == ()


def test_a_model_without_a_document_is_gone_at_once(catalog: Catalog) -> None:
    catalog.put_routes([], {})

    assert served(catalog) == []
    assert catalog.clusters() == set()


def test_a_bad_document_keeps_the_models_last_route(catalog: Catalog) -> None:
    catalog.put_routes([], {"tiny": "wrong"})

    assert served(catalog) == ["model-tiny-1"]
    assert catalog.problems == {"tiny": "wrong"}


def test_a_bad_document_of_a_model_never_seen_is_not_served(catalog: Catalog) -> None:
    catalog.put_routes([TINY_1], {"big": "wrong"})

    assert served(catalog) == ["model-tiny-1"]
