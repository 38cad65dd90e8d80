"""The gateway's one listener: OpenAI over HTTP/1.1 and HTTP/2, Triton's gRPC over HTTP/2; over TLS
if there is a certificate for clients.

The filters extract the model's name from each protocol (a JSON body, the first message of a gRPC
stream) into one header, which chooses the scope of routes. Nothing here depends on the routing
table, so a new model never drains a running listener.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import access_log, local_replies, request_stats
from .load_balancing import KEY_HEADER
from .public_tls import for_clients
from .routes import LUA, MODEL_HEADER, NO_MODEL, STREAM_HEADER, UNKNOWN_HEADER
from .triton import descriptor_set_base64, model_name_fields

LISTENER = "gateway"
HEALTH_PATH = "/healthz"

_TYPE = "type.googleapis.com/envoy.extensions"
_FILTERS = f"{_TYPE}.filters"
_GRPC_NAMESPACE = "envoy.filters.http.grpc_field_extraction"
_Json = dict[str, Any]

_LUA_FILE = Path(__file__).with_name("request.lua")
_LUA_CONSTANTS = {
    "MODEL_HEADER": MODEL_HEADER,
    "STREAM_HEADER": STREAM_HEADER,
    "KEY_HEADER": KEY_HEADER,
    "UNKNOWN_HEADER": UNKNOWN_HEADER,
    "NO_MODEL": NO_MODEL,
    "GRPC_METADATA": _GRPC_NAMESPACE,
}


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The address on which Envoy listens for clients, and one that it shares with the Envoys of
    other hosts: it listens there too, whether or not its host has the address now. `certificate` is
    the file in which Envoy finds what it shows clients; "" for plain HTTP."""

    address: str
    port: int
    shared: str = ""
    certificate: str = ""


def listener(gateway: GatewayAddress) -> _Json:
    return {
        "name": LISTENER,
        "address": _socket(gateway.address, gateway.port),
        **_shared(gateway),
        "per_connection_buffer_limit_bytes": 32768,
        "filter_chains": [
            {
                **_tls(gateway),
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _connection_manager(),
                    }
                ],
            }
        ],
    }


def _tls(gateway: GatewayAddress) -> _Json:
    return {"transport_socket": for_clients(gateway.certificate)} if gateway.certificate else {}


def _shared(gateway: GatewayAddress) -> _Json:
    """Listens there before and after the host has the address. Transparent, because only such
    sockets send from an address that has gone: a client hears at its next token that its stream is
    over, instead of waiting for its own timeout. That needs root, as keepalived does."""
    if not gateway.shared:
        return {}
    addresses = [{"address": _socket(gateway.shared, gateway.port)}]
    return {"additional_addresses": addresses, "transparent": True}


def _socket(address: str, port: int) -> _Json:
    return {"socket_address": {"address": address, "port_value": port}}


def _connection_manager() -> _Json:
    return {
        "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": LISTENER,
        "codec_type": "AUTO",
        "scoped_routes": _scoped_by_model(),
        "early_header_mutation_extensions": [_own_headers()],
        "http_filters": _http_filters(),
        "access_log": [*access_log.stdout_json(), *request_stats.stats_loggers()],
        "local_reply_config": local_replies.local_reply_config(),
        **_edge_hardening(),
    }


def _scoped_by_model() -> _Json:
    over_ads = {"ads": {}, "resource_api_version": "V3"}
    model = {"header_value_extractor": {"name": MODEL_HEADER, "index": 0}}
    return {
        "name": LISTENER,
        "scope_key_builder": {"fragments": [model]},
        "rds_config_source": over_ads,
        "scoped_rds": {"scoped_rds_config_source": over_ads},
    }


def _own_headers() -> _Json:
    """Before the first choice of a route: without a scope Envoy would neither apply the limit of
    bodies nor know an answer. What a client sends under these names is dropped."""
    none = {"header": {"key": MODEL_HEADER, "value": NO_MODEL}}
    first = {"append": {**none, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
    others = [{"remove": name} for name in (STREAM_HEADER, KEY_HEADER, UNKNOWN_HEADER)]
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": f"{_TYPE}.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": [first, *others],
        },
    }


def _edge_hardening() -> _Json:
    """Envoy's "Configuring Envoy as an edge proxy", without the settings that would break
    streaming."""
    return {
        "use_remote_address": True,
        "normalize_path": True,
        "merge_slashes": True,
        # Not a redirect: gRPC clients cannot follow one.
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "common_http_protocol_options": {
            "idle_timeout": "3600s",
            # Not a refusal: Codex sends a session_id with each request.
            "headers_with_underscores_action": "DROP_HEADER",
            "max_headers_count": 100,
        },
        "http2_protocol_options": {
            "max_concurrent_streams": 512,
            "initial_stream_window_size": 65536,
            "initial_connection_window_size": 1048576,
        },
        "request_headers_timeout": "10s",
        # Applies until a route with its own idle timeout is chosen: a gRPC stream waits for its
        # first message, an HTTP request for its body.
        "stream_idle_timeout": "300s",
    }


def _http_filters() -> list[_Json]:
    return [
        _filter("health_check", "http.health_check.v3.HealthCheck", _health_check()),
        _filter(
            "grpc_field_extraction",
            "http.grpc_field_extraction.v3.GrpcFieldExtractionConfig",
            _model_in_first_message(),
        ),
        _filter(
            LUA.rpartition(".")[2],
            "http.lua.v3.Lua",
            {"default_source_code": {"inline_string": request_lua()}},
        ),
        _filter("router", "http.router.v3.Router", {}),
    ]


def _filter(name: str, type_name: str, config: _Json) -> _Json:
    typed_config = {"@type": f"{_FILTERS}.{type_name}", **config}
    return {"name": f"envoy.filters.http.{name}", "typed_config": typed_config}


def _health_check() -> _Json:
    """200 while Envoy serves, 503 once it drains; used by Consul's check of the gateway."""
    path = {"name": ":path", "string_match": {"exact": HEALTH_PATH}}
    return {"pass_through_mode": False, "headers": [path]}


def request_lua() -> str:
    """The program of the Lua filter."""
    text = _LUA_FILE.read_text(encoding="utf-8")
    for name, value in _LUA_CONSTANTS.items():
        text = text.replace(f"@{name}@", value)
    return text


def _model_in_first_message() -> _Json:
    """Extracts the model name from a Triton request, or from the first message of a stream."""
    return {
        "descriptor_set": {"inline_bytes": descriptor_set_base64()},
        "extractions_by_method": {
            method: {"request_field_extractions": {field: {}}}
            for method, field in model_name_fields().items()
        },
    }
