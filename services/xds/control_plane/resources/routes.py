"""Routes, one resource for each name of a model: the model's name (a header that the listener's
filters set) chooses a scope, which has all that can be answered for that model.

A bad scope holds back no other, and finding one takes no longer with more of them. Requests whose
model is not known yet, or does not exist, are in a scope of their own, and so is the model list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..routing import GRPC, HTTP, PROTOCOLS, Protocol, Route
from . import replies
from .load_balancing import hash_policy

MODEL_HEADER = "x-slipway-model"
NO_MODEL = "-"  # the header's value until the model is known; no model has this name
UNKNOWN_HEADER = "x-slipway-unknown"  # set when no model has the name that a request gives
STREAM_HEADER = "x-slipway-stream"  # set when a JSON body asks for a stream
# Set by the proxy beside a replica that does not listen (components/serving/tls_proxy.py).
UNREACHABLE_HEADER = "x-slipway-replica-unreachable"
MAX_REQUEST_BODY_BYTES = 8 * 1024 * 1024
LUA = "envoy.filters.http.lua"  # whose metadata tells the listener's filter that a model exists

# All of Triton's inference methods start with Model; its control methods (repository, shared
# memory, trace, log settings) do not, and so are not routed.
TRITON_MODEL_METHODS = "/inference.GRPCInferenceService/Model"

# Other replicas that a request is tried on, where there are any. A request that ends each of its
# engines ends no more than these.
RETRIES = 2

# Replicas that a stream without a token is tried on, each for the longest gap between two tokens.
STREAM_TRIES = 2

_GRPC_NOT_FOUND = "5"
_CLIENT_ERROR = "invalid_request_error"
_Json = dict[str, Any]


def scope_of(name: str, route: Route) -> _Json:
    """The scope of a model's name or alias. What it speaks is routed; the rest says why not."""
    entries = [
        *_of_triton(name, route),
        *_of_openai(name, route),
        _direct({"prefix": "/"}, 404, _no_such_path()),
    ]
    metadata = {"filter_metadata": {LUA: {"model": route.model, **_for_lua(route)}}}
    return _scope(name, [{**entry, "metadata": metadata} for entry in entries])


def default_scope(names: Mapping[str, Route]) -> _Json:
    """The scope of requests without a known model; `names` are all that exist."""
    unknown = {"name": UNKNOWN_HEADER, "present_match": True}
    missing = {protocol: _unknown_model(names, protocol) for protocol in PROTOCOLS}
    not_found = replies.error(
        missing[HTTP], kind=_CLIENT_ERROR, code="model_not_found", param="model"
    )
    no_message = replies.message_error(missing[HTTP], kind="not_found_error")
    nothing_stored = replies.text(replies.nothing_stored())
    listed = replies.text(replies.model_list(_speaking(names, HTTP)))
    post = _method("POST")
    entries = [
        _direct(_get("/v1/models"), 200, listed),
        _grpc_not_found(
            {"prefix": TRITON_MODEL_METHODS, "grpc": {}, "headers": [unknown]}, missing[GRPC]
        ),
        _unnamed({"prefix": TRITON_MODEL_METHODS, "grpc": {}}),
        _grpc_unimplemented({"prefix": "/", "grpc": {}}, replies.INFERENCE_METHODS_ONLY),
        _direct(
            {"prefix": replies.MESSAGES_PATH, "headers": [unknown]}, 404, replies.text(no_message)
        ),
        _direct({"prefix": "/v1/", "headers": [unknown]}, 404, replies.text(not_found)),
        _unnamed({"prefix": "/v1/", "headers": [post]}),
        _direct({"prefix": replies.STORED_PATHS}, 404, nothing_stored),
        _direct({"prefix": "/v1/models/"}, 404, replies.text(not_found)),
        _direct({"prefix": "/"}, 404, _no_such_path()),
    ]
    return _scope(NO_MODEL, entries)


def names_of(routes: Iterable[Route]) -> dict[str, Route]:
    """Model by name. A model's own name takes precedence over an alias, then the first model
    wins."""
    known = tuple(routes)
    owners: dict[str, Route] = {}
    for route in known:
        owners.setdefault(route.model, route)
    for route in known:
        for alias in route.aliases:
            owners.setdefault(alias, route)
    return dict(sorted(owners.items()))


def _scope(name: str, entries: list[_Json]) -> _Json:
    return {
        "name": name,
        "key": {"fragments": [{"string_key": name}]},
        "route_configuration": {
            "name": name,
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
        },
    }


def _for_lua(route: Route) -> _Json:
    """What resources/request.lua needs to find a request's key."""
    routing = route.routing
    if routing.policy != "affinity":
        return {"key": "session"}  # and no header: no key
    header = {"session_header": routing.session_header} if routing.session_header else {}
    return {"key": routing.key, **header}


def _of_triton(name: str, route: Route) -> list[_Json]:
    methods: _Json = {"prefix": TRITON_MODEL_METHODS, "grpc": {}}
    if GRPC not in route.protocols:
        return [
            _grpc_unimplemented(methods, replies.only_http(name)),
            _grpc_unimplemented({"prefix": "/", "grpc": {}}, replies.INFERENCE_METHODS_ONLY),
        ]
    return [
        _forward(route, GRPC, methods),
        _grpc_unimplemented({"prefix": "/", "grpc": {}}, replies.INFERENCE_METHODS_ONLY),
    ]


def _of_openai(name: str, route: Route) -> list[_Json]:
    posted: _Json = {"prefix": "/v1/", "headers": [_method("POST")]}
    if HTTP not in route.protocols:
        body = replies.text(
            replies.error(
                replies.only_grpc(name),
                kind=_CLIENT_ERROR,
                code="protocol_not_served",
                param="model",
            )
        )
        message = replies.message_error(replies.only_grpc(name), kind="not_found_error")
        return [
            _direct(_get(f"/v1/models/{name}"), 404, body),
            _direct({**posted, "prefix": replies.MESSAGES_PATH}, 404, replies.text(message)),
            _direct(posted, 404, body),
        ]
    return [
        _streamed(route, posted),
        _forward(route, HTTP, posted),
        _direct(_get(f"/v1/models/{name}"), 200, replies.text(replies.model_object(name))),
    ]


def _streamed(route: Route, match: _Json) -> _Json:
    """For streamed answers: the gap between two tokens is limited, so that a stuck stream ends.

    Before the first token the request goes to another replica instead, even if nobody has found its
    replica hung: the watcher may stand still as well. Envoy's own gap, which a second try does not
    begin anew, bounds all tries.
    """
    streams = {"name": STREAM_HEADER, "present_match": True}
    entry = _forward(route, HTTP, {**match, "headers": [*match["headers"], streams]})
    gap = {"per_try_idle_timeout": f"{route.stream_idle_timeout_s}s"}
    entry["route"]["retry_policy"] = {**_retry_policy(), **gap}
    entry["route"]["idle_timeout"] = f"{STREAM_TRIES * route.stream_idle_timeout_s}s"
    return entry


def _forward(route: Route, protocol: Protocol, match: _Json) -> _Json:
    """For whole answers, which arrive after a generation of any length; nothing is sent until
    then."""
    max_duration = f"{route.max_stream_duration_s}s"
    hashed = hash_policy(route.routing, protocol)
    return {
        "name": f"{route.model}/{protocol}",
        "match": match,
        "route": {
            **_destination(route, protocol),
            **({"hash_policy": hashed} if hashed else {}),
            "timeout": "0s",
            "idle_timeout": max_duration,
            "max_stream_duration": {
                "max_stream_duration": max_duration,
                "grpc_timeout_header_max": max_duration,
            },
        },
    }


def _destination(route: Route, protocol: Protocol) -> _Json:
    """With keys, a key stays with its backend, too."""
    weighted = [
        {"name": backend.cluster(protocol), "weight": backend.weight}
        for backend in sorted(route.backends, key=lambda backend: backend.service)
        if backend.weight
    ]
    if len(weighted) == 1:
        return {"cluster": weighted[0]["name"]}
    keyed = {"use_hash_policy": True} if route.routing.has_key(protocol) else {}
    return {"weighted_clusters": {"clusters": weighted, **keyed}}


def _speaking(names: Mapping[str, Route], protocol: Protocol) -> list[str]:
    return [name for name, route in names.items() if protocol in route.protocols]


def _unknown_model(names: Mapping[str, Route], protocol: Protocol) -> str:
    return replies.unknown_model(_speaking(names, protocol))


def _unnamed(match: _Json) -> _Json:
    """The route of a request until its model is known, or if it names none.

    It is a route and not a direct response, because Envoy applies the body limit to routes only.
    There is no such cluster, which resources/local_replies.py turns into an error.
    """
    return {"name": "unnamed", "match": match, "route": {"cluster_header": MODEL_HEADER}}


def _no_such_path() -> str:
    return replies.text(
        replies.error(replies.NO_SUCH_PATH, kind=_CLIENT_ERROR, code="unknown_path")
    )


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
    """Retries requests to which no replica has sent a header. Engines send headers with the first
    token, so nothing was shown; whatever has begun is never begun twice."""
    name = "envoy.retry_host_predicates.previous_hosts"
    type_url = "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3"
    return {
        "retry_on": ("connect-failure,refused-stream,reset,unavailable,retriable-headers"),
        "retriable_headers": [{"name": UNREACHABLE_HEADER, "present_match": True}],
        "num_retries": RETRIES,
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


def _header(name: str, value: str) -> _Json:
    header = {"key": name, "value": value}
    return {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
