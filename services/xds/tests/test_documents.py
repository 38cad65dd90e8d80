"""Reading Consul's JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from control_plane.kv_document import BadDocumentError
from control_plane.routing import LEAST_REQUEST, Endpoint, Route
from control_plane.sources.documents import (
    endpoints_from_health,
    route_from_kv,
)

SCHEMA = Path(__file__).parents[3] / "schemas" / "route.schema.json"
# As the planner wrote them when version 3 was its newest.
ROUTES_OF_VERSION_3 = Path(__file__).parent / "documents" / "routes-version-3.json"
ROUTING = {"policy": "affinity", "key": "prefix", "bound_percent": 125}
DOCUMENT = {
    "schema_version": 4,
    "model": "tiny",
    "aliases": ["small"],
    "protocols": ["http", "grpc"],
    "backends": [{"service": "model-tiny-1", "weight": 100}],
    "max_concurrent_requests_per_replica": 64,
    "stream_idle_timeout_s": 120,
    "max_stream_duration_s": 600,
    "routing": ROUTING,
}
WITHOUT_ROUTING = {key: value for key, value in DOCUMENT.items() if key != "routing"}
OVER_TLS = {"service": "model-tiny-1", "server_name": "replica.dev.slipway"}
BAD = [
    ({**DOCUMENT, "schema_version": 5}, "schema_version"),
    ({**WITHOUT_ROUTING, "schema_version": 2}, "schema_version"),
    ({**DOCUMENT, "schema_version": 3}, "the document"),
    (WITHOUT_ROUTING, "the document"),
    ({**DOCUMENT, "routing": {**ROUTING, "policy": "random"}}, "routing.policy"),
    ({**DOCUMENT, "routing": {**ROUTING, "key": "ip"}}, "routing.key"),
    ({**DOCUMENT, "routing": {**ROUTING, "bound_percent": 99}}, "routing.bound_percent"),
    ({**DOCUMENT, "routing": {**ROUTING, "session_header": "X-Id"}}, "routing.session_header"),
    ({**DOCUMENT, "routing": {**ROUTING, "session_header": ":path"}}, "routing.session_header"),
    ({**DOCUMENT, "backends": [{**OVER_TLS, "server_name": "*.x"}]}, "backends.0.server_name"),
    ({k: v for k, v in DOCUMENT.items() if k != "protocols"}, "protocols"),
    ({**DOCUMENT, "protocols": []}, "protocols"),
    ({**DOCUMENT, "protocols": ["http", "http"]}, "the document"),
    ({**DOCUMENT, "protocols": ["openai"]}, "protocols.0"),
    ({**DOCUMENT, "model": ""}, "model"),
    ({**DOCUMENT, "aliases": ["a b"]}, "aliases.0"),
    ({**DOCUMENT, "backends": []}, "backends"),
    ({**DOCUMENT, "backends": [{"service": "Not-A-Service"}]}, "backends.0.service"),
    ({**DOCUMENT, "backends": [{"service": "a", "weight": -1}]}, "backends.0.weight"),
    ({**DOCUMENT, "max_concurrent_requests_per_replica": 0}, "max_concurrent_requests_per_replica"),
    ({**DOCUMENT, "surprise": 1}, "surprise"),
    ({k: v for k, v in DOCUMENT.items() if k != "backends"}, "backends"),
]


def entry(document: Any, key: str = "slipway/routes/tiny") -> dict[str, str]:
    return {"Key": key, "Value": base64.b64encode(json.dumps(document).encode()).decode()}


def test_the_schema_in_the_repository_is_the_models() -> None:
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == draft | Route.model_json_schema()


def test_a_document_becomes_a_route() -> None:
    route = route_from_kv(entry(DOCUMENT))

    assert route.names == ("tiny", "small")
    assert route.clusters() == ("model-tiny-1-openai", "model-tiny-1-grpc")
    jsonschema.validate(DOCUMENT, json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("protocols", "clusters"),
    [
        (["http"], {"model-tiny-1-openai"}),
        (["grpc"], {"model-tiny-1-grpc"}),
        (["grpc", "http"], {"model-tiny-1-grpc", "model-tiny-1-openai"}),
    ],
)
def test_a_route_has_clusters_for_its_protocols_only(
    protocols: list[str], clusters: set[str]
) -> None:
    document = {**DOCUMENT, "protocols": protocols}

    assert set(route_from_kv(entry(document)).clusters()) == clusters
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_documents_of_version_3_are_routes_to_the_replica_with_fewer_requests() -> None:
    documents = json.loads(ROUTES_OF_VERSION_3.read_text(encoding="utf-8"))

    assert {document["schema_version"] for document in documents.values()} == {3}
    for model, document in documents.items():
        route = route_from_kv(entry(document, key=f"slipway/routes/{model}"))
        assert route.routing == LEAST_REQUEST
        assert len(route.clusters()) == 2
        jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_a_session_as_key_needs_its_header() -> None:
    document = {**DOCUMENT, "routing": {**ROUTING, "key": "session"}}
    with pytest.raises(BadDocumentError, match="needs a session_header"):
        route_from_kv(entry(document))


@pytest.mark.parametrize(("document", "where"), BAD)
def test_a_wrong_document_is_refused_by_the_program_and_by_the_schema(
    document: dict[str, Any], where: str
) -> None:
    with pytest.raises(BadDocumentError, match=rf"slipway/routes/tiny: {where}: "):
        route_from_kv(entry(document))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("backends", "reason"),
    [
        ([{"service": "a", "weight": 0}], "weight 0"),
        ([{"service": "a"}, {"service": "a"}], "listed twice"),
    ],
)
def test_backends_that_make_no_sense_are_refused(backends: list[Any], reason: str) -> None:
    with pytest.raises(BadDocumentError, match=reason):
        route_from_kv(entry({**DOCUMENT, "backends": backends}))


@pytest.mark.parametrize("value", ["", None, "%%%", base64.b64encode(b"{").decode()])
def test_a_value_that_is_not_json_is_refused(value: str | None) -> None:
    with pytest.raises(BadDocumentError, match="slipway/routes/tiny"):
        route_from_kv({"Key": "slipway/routes/tiny", "Value": value})


def test_a_key_that_names_another_model_is_refused() -> None:
    with pytest.raises(BadDocumentError, match="must end with the model's name, 'tiny'"):
        route_from_kv(entry(DOCUMENT, key="slipway/routes/other"))


def instance(address: str, *statuses: str, node: str = "10.9.9.9", port: int = 1) -> dict[str, Any]:
    return {
        "Node": {"Address": node},
        "Service": {"Address": address, "Port": port},
        "Checks": [{"Status": status} for status in statuses],
    }


@pytest.mark.parametrize(
    ("statuses", "healthy"),
    [
        (("passing",), True),
        ((), True),
        (("passing", "critical"), False),
        (("passing", "warning"), False),
    ],
)
def test_an_instance_is_healthy_when_all_its_checks_pass(
    statuses: tuple[str, ...], healthy: bool
) -> None:
    assert endpoints_from_health([instance("10.0.0.1", *statuses)]) == (
        Endpoint("10.0.0.1", 1, healthy),
    )


@pytest.mark.parametrize(
    ("was_healthy", "output", "healthy"),
    [
        (True, "", True),  # its agent was just started and has asked nobody yet
        (True, "connection refused", False),
        (False, "", False),
        (None, "", False),  # new: nothing is known of it
    ],
)
def test_a_check_that_has_not_run_yet_leaves_an_instance_what_it_was(
    was_healthy: bool | None, output: str, healthy: bool
) -> None:
    entry = instance("10.0.0.1", "passing", "critical")
    entry["Checks"][1]["Output"] = output
    before = () if was_healthy is None else (Endpoint("10.0.0.1", 1, was_healthy),)
    assert endpoints_from_health([entry], before=before) == (Endpoint("10.0.0.1", 1, healthy),)


@pytest.mark.parametrize("check", ["_node_maintenance", "_service_maintenance:model-tiny-1-7"])
def test_an_instance_in_maintenance_is_out_of_use_on_purpose(check: str) -> None:
    """Such a check has no output, as one that has not run yet."""
    entry = instance("10.0.0.1", "passing", "critical")
    entry["Checks"][1] |= {"CheckID": check, "Output": ""}
    entry["Service"]["ID"] = "a"
    (found,) = endpoints_from_health([entry], before=(Endpoint("10.0.0.1", 1, True),))
    assert (found.healthy, found.instance) == (False, "")
    del entry["Checks"][1]
    (found,) = endpoints_from_health([entry])
    assert (found.healthy, found.instance) == (True, "a")


@pytest.mark.parametrize("statuses", [("critical", "passing"), ("passing", "critical")])
def test_of_two_instances_at_one_place_the_healthy_one_counts(statuses: tuple[str, ...]) -> None:
    """One that died is still registered when the next replica gets its port."""
    entries = [*(instance("10.0.0.1", status) for status in statuses), instance("10.0.0.2")]

    assert endpoints_from_health(entries) == (
        Endpoint("10.0.0.1", 1, True),
        Endpoint("10.0.0.2", 1, True),
    )


def test_two_failing_instances_at_one_place_are_one_endpoint() -> None:
    entries = [instance("10.0.0.1", "critical"), instance("10.0.0.1", "warning")]

    assert endpoints_from_health(entries) == (Endpoint("10.0.0.1", 1, False),)


def test_an_instance_without_an_address_has_its_nodes() -> None:
    assert endpoints_from_health([instance("")]) == (Endpoint("10.9.9.9", 1, True),)


def test_an_instance_whose_address_is_a_name_is_left_out() -> None:
    entries = [instance("replica.internal"), instance("::1")]

    assert endpoints_from_health(entries) == (Endpoint("::1", 1, True),)
