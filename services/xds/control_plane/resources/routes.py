"""The route configuration: model name (header set by the listener's filters) -> backends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..routing import GRPC, HTTP, PROTOCOLS, Protocol, Route
from . import replies

ROUTE_CONFIG = "slipway"
MODEL_HEADER = "x-slipway-model"
STREAM_HEADER = "x-slipway-stream"  # set when a JSON body asks for a stream
# Set by the proxy beside a replica that does not listen (components/serving/tls_proxy.py).
UNREACHABLE_HEADER = "x-slipway-replica-unreachable"
MAX_REQUEST_BODY_BYTES = 8 * 1024 * 1024

# All of Triton's inference methods start with Model; its control methods (repository, shared
# memory, trace, log settings) do not, and so are not routed.
TRITON_MODEL_METHODS = "/inference.GRPCInferenceService/Model"

_GRPC_NOT_FOUND = "5"
_NOT_OVER_HTTP = {"kind": "invalid_request_error", "code": "protocol_not_served", "param": "model"}
_Json = dict[str, Any]


def route_config(routes: tuple[Route, ...]) -> _Json:
    """The only RouteConfiguration: routes to models first, then responses that explain why nothing
    matched."""
    owners = names(routes)
    speakers = {protocol: _speakers(owners, protocol) for protocol in PROTOCOLS}
    entries = [
        _direct(_get("/v1/models"), 200, replies.text(replies.model_list(speakers[HTTP]))),
        *(
            _direct(_get(f"/v1/models/{name}"), 200, replies.text(replies.model_object(name)))
            for name in speakers[HTTP]
        ),
        *(_forward(name, route, GRPC) for name, route in speakers[GRPC].items()),
        *(_streamed(name, route) for name, route in speakers[HTTP].items()),
        *(_forward(name, route, HTTP) for name, route in speakers[HTTP].items()),
        *_wrong_protocols(owners),
        *_refusals(speakers),
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
                "response_headers_to_remove": [UNREACHABLE_HEADER],
                "request_body_buffer_limit": MAX_REQUEST_BODY_BYTES,
            }
        ],
    }


def names(routes: tuple[Route, ...]) -> dict[str, Route]:
    """Model by name. A model's own name takes precedence over an alias, then the first model
    wins."""
    owners: dict[str, Route] = {}
    for route in routes:
        owners.setdefault(route.model, route)
    for route in routes:
        for alias in route.aliases:
            owners.setdefault(alias, route)
    return dict(sorted(owners.items()))


def _speakers(owners: Mapping[str, Route], protocol: Protocol) -> dict[str, Route]:
    return {name: route for name, route in owners.items() if protocol in route.protocols}


def _streamed(name: str, route: Route) -> _Json:
    """For streamed answers: the gap between two tokens is limited, so that a stuck stream ends."""
    entry = _forward(name, route, HTTP)
    entry["match"]["headers"].append({"name": STREAM_HEADER, "present_match": True})
    entry["route"]["idle_timeout"] = f"{route.stream_idle_timeout_s}s"
    return entry


def _forward(name: str, route: Route, protocol: Protocol) -> _Json:
    """For whole answers, which arrive after a generation of any length; nothing is sent until
    then."""
    match = _of_model(name, protocol)
    max_duration = f"{route.max_stream_duration_s}s"
    return {
        "name": f"{route.model}/{protocol}",
        "match": match,
        "route": {
            **_destination(route, protocol),
            "timeout": "0s",
            "idle_timeout": max_duration,
            "max_stream_duration": {
                "max_stream_duration": max_duration,
                "grpc_timeout_header_max": max_duration,
            },
        },
    }


def _of_model(name: str, protocol: Protocol) -> _Json:
    """Matches inference requests for a model over one protocol."""
    if protocol == GRPC:
        return {"prefix": TRITON_MODEL_METHODS, "grpc": {}, "headers": [_model_is(name)]}
    return {"prefix": "/v1/", "headers": [_model_is(name), _method("POST")]}


def _destination(route: Route, protocol: Protocol) -> _Json:
    weighted = [
        {"name": backend.cluster(protocol), "weight": backend.weight}
        for backend in sorted(route.backends, key=lambda backend: backend.service)
        if backend.weight
    ]
    if len(weighted) == 1:
        return {"cluster": weighted[0]["name"]}
    return {"weighted_clusters": {"clusters": weighted}}


def _wrong_protocols(owners: Mapping[str, Route]) -> list[_Json]:
    """Answers for a model that exists, but not over the protocol of the request."""
    entries = []
    for name, route in owners.items():
        if HTTP not in route.protocols:
            body = replies.text(replies.error(replies.only_grpc(name), **_NOT_OVER_HTTP))
            entries.append(_direct(_get(f"/v1/models/{name}"), 404, body))
            entries.append(_direct(_of_model(name, HTTP), 404, body))
        if GRPC not in route.protocols:
            entries.append(_grpc_unimplemented(_of_model(name, GRPC), replies.only_http(name)))
    return entries


def _refusals(speakers: Mapping[Protocol, Iterable[str]]) -> list[_Json]:
    """Responses to requests that match no model, most specific first."""
    client = "invalid_request_error"
    not_found = replies.error(
        replies.unknown_model(speakers[HTTP]), kind=client, code="model_not_found", param="model"
    )
    elsewhere = replies.error(replies.NO_SUCH_PATH, kind=client, code="unknown_path")
    named = {"name": MODEL_HEADER, "present_match": True}
    post = _method("POST")
    return [
        _grpc_not_found(
            {"prefix": TRITON_MODEL_METHODS, "grpc": {}, "headers": [named]},
            replies.unknown_model(speakers[GRPC]),
        ),
        _grpc_unimplemented({"prefix": "/", "grpc": {}}, replies.INFERENCE_METHODS_ONLY),
        _direct({"prefix": "/v1/", "headers": [post, named]}, 404, replies.text(not_found)),
        _unnamed({"prefix": "/v1/", "headers": [post]}),
        _direct({"prefix": "/v1/models/"}, 404, replies.text(not_found)),
        _direct({"prefix": "/"}, 404, replies.text(elsewhere)),
    ]


def _unnamed(match: _Json) -> _Json:
    """The route of a request until its model is known, or if it names none.

    It is a route and not a direct response, because Envoy applies the body limit to routes only.
    Without the header no cluster is found, which resources/local_replies.py turns into a 400.
    """
    return {"name": "unnamed", "match": match, "route": {"cluster_header": MODEL_HEADER}}


def _direct(match: _Json, status: int, body: str) -> _Json:
    return {
        "match": match,
        "direct_response": {"status": status, "body": {"inline_string": body}},
        "response_headers_to_add": [_header("content-type", "application/json")],
    }


def _grpc_not_found(match: _Json, message: str) -> _Json:
    """NOT_FOUND, because Envoy would map HTTP 404 to UNIMPLEMENTED."""
    return {
        "match": match,
        "direct_response": {"status": 404, "body": {"inline_string": message}},
        "response_headers_to_add": [_header("grpc-status", _GRPC_NOT_FOUND)],
    }


def _grpc_unimplemented(match: _Json, message: str) -> _Json:
    """UNIMPLEMENTED, to which Envoy maps HTTP 404 for gRPC."""
    return {"match": match, "direct_response": {"status": 404, "body": {"inline_string": message}}}


def _retry_policy() -> _Json:
    """Retries only requests that no replica has begun to answer, so a generation never runs
    twice."""
    name = "envoy.retry_host_predicates.previous_hosts"
    type_url = "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3"
    return {
        "retry_on": (
            "connect-failure,refused-stream,reset-before-request,unavailable,retriable-headers"
        ),
        "retriable_headers": [{"name": UNREACHABLE_HEADER, "present_match": True}],
        "num_retries": 2,
        "retry_host_predicate": [
            {"name": name, "typed_config": {"@type": f"{type_url}.PreviousHostsPredicate"}}
        ],
        # A dead replica has the fewest requests, so with two replicas it is picked again in three
        # of four cases, and the last pick is used in any case.
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
