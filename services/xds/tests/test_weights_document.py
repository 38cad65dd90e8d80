"""Documents of weights: what is taken, and what is refused with which reason."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from control_plane.kv_document import BadDocumentError
from control_plane.routing import Endpoint, RoutingTable
from control_plane.sources.catalog import Catalog
from control_plane.weights.computing import replicas_of
from control_plane.weights.document import Weights, weights_from_kv
from support.gateway import route

SCHEMA = Path(__file__).parents[3] / "schemas" / "replica-weights.schema.json"
GOOD = {"schema_version": 1, "model": "tiny", "replicas": {"model-tiny-1.replica[0]": 70}}
TINY = route("tiny", "model-tiny-1")


def entry(document: Any, key: str = "slipway/weights/tiny") -> dict[str, str]:
    text = document if isinstance(document, str) else json.dumps(document)
    return {"Key": key, "Value": base64.b64encode(text.encode()).decode()}


def test_the_schema_is_that_of_the_model() -> None:
    assert json.loads(SCHEMA.read_text()) == Weights.model_json_schema()


def test_weights_are_read() -> None:
    assert weights_from_kv(entry(GOOD)).replicas == {"model-tiny-1.replica[0]": 70}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("garbage", "Invalid JSON"),
        ("", "Invalid JSON"),
        ({**GOOD, "schema_version": 2}, "schema_version"),
        ({**GOOD, "model": "other"}, "must end with the model's name"),
        ({**GOOD, "replicas": {"a": 0}}, "replicas.a"),
        ({**GOOD, "replicas": {"a": 75}}, "replicas.a"),
        ({**GOOD, "replicas": {"a": 1000}}, "replicas.a"),
        ({**GOOD, "replicas": [1]}, "replicas"),
        ({**GOOD, "more": 1}, "more"),
    ],
)
def test_what_is_not_a_document_of_weights_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(BadDocumentError, match=reason):
        weights_from_kv(entry(document))


def test_a_value_that_is_not_base64_is_refused() -> None:
    with pytest.raises(BadDocumentError, match="not base64"):
        weights_from_kv({"Key": "slipway/weights/tiny", "Value": "{"})


def _served(catalog: Catalog, cluster: str = "model-tiny-1-openai") -> list[int]:
    table = catalog.table()
    assert table is not None
    return [endpoint.weight for endpoint in table.endpoints[cluster]]


def _replica(number: int) -> Endpoint:
    return Endpoint("10.0.0.1", 8000 + number, True, f"model-tiny-1.replica[{number}]")


@pytest.fixture
def catalog() -> Catalog:
    """Serves two replicas."""
    catalog = Catalog()
    catalog.put_routes([TINY], {})
    for cluster in TINY.clusters():
        catalog.put_endpoints(cluster, (_replica(0), _replica(1)))
    catalog.put_weights({})
    return catalog


def test_nothing_is_served_before_weights_are_known() -> None:
    catalog = Catalog()
    catalog.put_routes([TINY], {})
    for cluster in TINY.clusters():
        catalog.put_endpoints(cluster, (_replica(0),))
    assert catalog.table() is None

    catalog.put_weights({"model-tiny-1.replica[0]": 70})

    assert _served(catalog) == [70]


def test_weights_are_those_of_names_and_a_new_replica_begins_low(catalog: Catalog) -> None:
    assert _served(catalog) == [100, 100]

    catalog.put_weights({"model-tiny-1.replica[0]": 60, "model-tiny-1.replica[1]": 100})
    catalog.put_endpoints("model-tiny-1-openai", (_replica(0), _replica(1), _replica(2)))

    assert _served(catalog) == [60, 100, 30]
    assert _served(catalog, "model-tiny-1-grpc") == [60, 100]


def test_a_replica_without_a_name_has_an_equal_share(catalog: Catalog) -> None:
    catalog.put_weights({"model-tiny-1.replica[0]": 60, "model-tiny-1.replica[1]": 100})
    nameless = Endpoint("10.0.0.1", 9000, True)
    catalog.put_endpoints("model-tiny-1-openai", (_replica(0), nameless))

    assert _served(catalog) == [60, 100]


def test_weights_of_others_change_no_endpoints(catalog: Catalog) -> None:
    before = catalog.table()
    catalog.put_weights({"model-other-1.replica[0]": 30})
    after = catalog.table()

    assert before is not None
    assert after is not None
    for cluster in TINY.clusters():
        assert after.endpoints[cluster] is before.endpoints[cluster]


def test_weights_of_the_last_known_view_hold_until_those_of_consul_are_known() -> None:
    low, full = Endpoint("10.0.0.1", 1, True, "a", 0, 40), Endpoint("10.0.0.2", 1, True, "b")
    catalog = Catalog()
    clusters = TINY.clusters()
    catalog.restore(RoutingTable((TINY,), dict.fromkeys(clusters, (low, full))))
    fresh = (Endpoint("10.0.0.1", 1, True, "a"), Endpoint("10.0.0.2", 1, True, "b"))

    catalog.put_endpoints(clusters[0], fresh)
    assert _served(catalog, clusters[0]) == [40, 100]

    catalog.put_weights({})
    assert _served(catalog, clusters[0]) == [100, 100]


def test_jobs_without_named_replicas_have_no_weights() -> None:
    clusters = {cluster: (_replica(0), _replica(1)) for cluster in TINY.clusters()}
    nameless = route("nameless", "model-nameless-1")
    endpoints = {**clusters, **dict.fromkeys(nameless.clusters(), (Endpoint("10.0.0.9", 1, True),))}

    found = replicas_of(RoutingTable((TINY, nameless), endpoints))

    assert found == {"tiny": [{"model-tiny-1.replica[0]", "model-tiny-1.replica[1]"}]}
