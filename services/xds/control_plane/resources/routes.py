"""The route configuration: model name (header set by the listener's filters) -> backends."""

from __future__ import annotations

from typing import Any

from ..routing import GRPC, OPENAI, Route
from . import replies

ROUTE_CONFIG = "slipway"
MODEL_HEADER = "x-slipway-model"
STREAM_HEADER = "x-slipway-stream"  # there when a JSON body asks for a stream
MAX_REQUEST_BODY_BYTES = 8 * 1024 * 1024

# Triton's inference methods all start with Model; its control methods (repository, shared
# memory, trace, log settings) do not, and so have no way through.
TRITON_MODEL_METHODS = "/inference.GRPCInferenceService/Model"

_GRPC_NOT_FOUND = "5"
_Json = dict[str, Any]


def route_config(routes: tuple[Route, ...]) -> _Json:
    """The one RouteConfiguration. Order: models first, then what explains why nothing matched."""
    owners = names(routes)
    entries = [
        _direct(_get("/v1/models"), 200, replies.text(replies.model_list(routes))),
        *(
            _direct(_get(f"/v1/models/{name}"), 200, replies.text(replies.model_object(name)))
            for name in owners
        ),
        *(_forward(name, route, GRPC) for name, route in owners.items()),
        *(_streamed(name, route) for name, route in owners.items()),
        *(_forward(name, route, OPENAI) for name, route in owners.items()),
        *_refusals(routes),
    ]
    return {
        "name": ROUTE_CONFIG,
        "max_direct_response_body_size_bytes": 4 * 1024 * 1024,
        "virtual_hosts": [
            {
                "name": "gateway",
                "domains": ["*"],
                "routes": entries,
                "retry_policy": _retry_policy(),
                "request_body_buffer_limit": MAX_REQUEST_BODY_BYTES,
            }
        ],
    }


def names(routes: tuple[Route, ...]) -> dict[str, Route]:
    """Who answers to which name. A model's own name beats an alias; then the first model wins."""
    owners: dict[str, Route] = {}
    for route in routes:
        owners.setdefault(route.model, route)
    for route in routes:
        for alias in route.aliases:
            owners.setdefault(alias, route)
    return dict(sorted(owners.items()))


def _streamed(name: str, route: Route) -> _Json:
    """An answer token by token: the gap between two is bounded, so that a stuck one ends."""
    entry = _forward(name, route, OPENAI)
    entry["match"]["headers"].append({"name": STREAM_HEADER, "present_match": True})
    entry["route"]["idle_timeout"] = f"{route.stream_idle_timeout_s}s"
    return entry


def _forward(name: str, route: Route, door: str) -> _Json:
    """An answer may come whole, after a generation of no fixed length: until then all is quiet."""
    path = TRITON_MODEL_METHODS if door == GRPC else "/v1/"
    match: _Json = {"prefix": path, "headers": [_model_is(name)]}
    if door == GRPC:
        match["grpc"] = {}
    else:
        match["headers"].append(_method("POST"))
    max_duration = f"{route.max_stream_duration_s}s"
    return {
        "name": f"{route.model}/{door}",
        "match": match,
        "route": {
            **_destination(route, door),
            "timeout": "0s",
            "idle_timeout": max_duration,
            "max_stream_duration": {
                "max_stream_duration": max_duration,
                "grpc_timeout_header_max": max_duration,
            },
        },
    }


def _destination(route: Route, door: str) -> _Json:
    weighted = [
        {"name": backend.cluster(door), "weight": backend.weight}
        for backend in sorted(route.backends, key=lambda backend: backend.service)
        if backend.weight
    ]
    if len(weighted) == 1:
        return {"cluster": weighted[0]["name"]}
    return {"weighted_clusters": {"clusters": weighted}}


def _refusals(routes: tuple[Route, ...]) -> list[_Json]:
    """Answers for what no model took, from the most to the least specific."""
    unknown = replies.unknown_model(routes)
    client = "invalid_request_error"
    not_found = replies.error(unknown, kind=client, code="model_not_found", param="model")
    elsewhere = replies.error(replies.NO_SUCH_PATH, kind=client, code="unknown_path")
    named = {"name": MODEL_HEADER, "present_match": True}
    post = _method("POST")
    return [
        _grpc_not_found({"prefix": TRITON_MODEL_METHODS, "grpc": {}, "headers": [named]}, unknown),
        _grpc_refusal({"prefix": "/", "grpc": {}}),
        _direct({"prefix": "/v1/", "headers": [post, named]}, 404, replies.text(not_found)),
        _unnamed({"prefix": "/v1/", "headers": [post]}),
        _direct({"prefix": "/v1/models/"}, 404, replies.text(not_found)),
        _direct({"prefix": "/"}, 404, replies.text(elsewhere)),
    ]


def _unnamed(match: _Json) -> _Json:
    """Where a request is until its model is known, and stays when it names none.

    A route and not a direct response, because Envoy applies the body limit to routes only. The
    missing header leads to no cluster, which resources/local_replies.py turns into a 400.
    """
    return {"name": "unnamed", "match": match, "route": {"cluster_header": MODEL_HEADER}}


def _direct(match: _Json, status: int, body: str) -> _Json:
    return {
        "match": match,
        "direct_response": {"status": status, "body": {"inline_string": body}},
        "response_headers_to_add": [_header("content-type", "application/json")],
    }


def _grpc_not_found(match: _Json, message: str) -> _Json:
    """NOT_FOUND. By itself Envoy maps HTTP 404 to UNIMPLEMENTED."""
    return {
        "match": match,
        "direct_response": {"status": 404, "body": {"inline_string": message}},
        "response_headers_to_add": [_header("grpc-status", _GRPC_NOT_FOUND)],
    }


def _grpc_refusal(match: _Json) -> _Json:
    """UNIMPLEMENTED: what Envoy makes of 404 for gRPC."""
    message = "the gateway serves Triton's inference methods only"
    return {"match": match, "direct_response": {"status": 404, "body": {"inline_string": message}}}


def _retry_policy() -> _Json:
    """Only what no replica has begun to answer: a generation is never run twice."""
    name = "envoy.retry_host_predicates.previous_hosts"
    type_url = "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3"
    return {
        "retry_on": "connect-failure,refused-stream,reset-before-request,unavailable",
        "num_retries": 2,
        "retry_host_predicate": [
            {"name": name, "typed_config": {"@type": f"{type_url}.PreviousHostsPredicate"}}
        ],
        # A dead replica has the fewest requests: of two, three picks in four fall on it again, and
        # the last pick is taken whatever it is.
        "host_selection_retry_max_attempts": "64",
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
    }


def _get(path: str) -> _Json:
    return {"path": path, "headers": [_method("GET")]}


def _method(method: str) -> _Json:
    return {"name": ":method", "string_match": {"exact": method}}


def _model_is(name: str) -> _Json:
    return {"name": MODEL_HEADER, "string_match": {"exact": name}}


def _header(name: str, value: str) -> _Json:
    header = {"key": name, "value": value}
    return {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
