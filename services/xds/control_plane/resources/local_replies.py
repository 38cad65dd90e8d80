"""Envoy's own errors in the client's protocol: OpenAI JSON for HTTP, a status for gRPC."""

from __future__ import annotations

from typing import Any

from .replies import (
    BODY_TOO_LARGE,
    MODEL_MISSING,
    NO_HEALTHY_REPLICA,
    OVERLOADED,
    RETRY_AFTER_S,
    error,
)
from .routes import MODEL_HEADER

_Json = dict[str, Any]

# Envoy's response flags: UH no healthy upstream, NC no such cluster, UO circuit breaker overflow.
_NO_REPLICA_FLAGS = ["UH", "NC"]
_OVERFLOW_FLAGS = ["UO"]


def local_reply_config() -> _Json:
    """First match wins. gRPC replies keep their status; the text becomes the grpc-message."""
    kind = "invalid_request_error"
    missing = error(MODEL_MISSING, kind=kind, code=None, param="model")
    too_large = error(BODY_TOO_LARGE, kind=kind, code="request_too_large")
    unavailable = error(NO_HEALTHY_REPLICA, kind="service_unavailable", code="no_healthy_replica")
    overloaded = error(OVERLOADED, kind="rate_limit_error", code="overloaded")
    return {
        "mappers": [
            _grpc(_NO_REPLICA_FLAGS, NO_HEALTHY_REPLICA),
            _grpc(_OVERFLOW_FLAGS, OVERLOADED),
            _http(_all(_flags(["NC"]), _header(MODEL_HEADER, absent=True)), 400, missing),
            _http(_status(413), 413, too_large),
            _retry_later(_http(_flags(_NO_REPLICA_FLAGS), 503, unavailable)),
            _retry_later(_http(_flags(_OVERFLOW_FLAGS), 429, overloaded)),
        ]
    }


def _http(when: _Json, status: int, body: _Json) -> _Json:
    override = {"json_format": body}
    return {"filter": when, "status_code": status, "body_format_override": override}


def _retry_later(mapper: _Json) -> _Json:
    header = {"key": "retry-after", "value": str(RETRY_AFTER_S)}
    added = {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {**mapper, "headers_to_add": [added]}


def _grpc(flags: list[str], message: str) -> _Json:
    is_grpc = {"name": "content-type", "string_match": {"prefix": "application/grpc"}}
    return {
        "filter": _all(_flags(flags), {"header_filter": {"header": is_grpc}}),
        "body": {"inline_string": message},
        "body_format_override": {"text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"}},
    }


def _all(*filters: _Json) -> _Json:
    return {"and_filter": {"filters": list(filters)}}


def _flags(flags: list[str]) -> _Json:
    return {"response_flag_filter": {"flags": flags}}


def _status(code: int) -> _Json:
    equal = {"op": "EQ", "value": {"default_value": code, "runtime_key": "slipway.unused"}}
    return {"status_code_filter": {"comparison": equal}}


def _header(name: str, *, absent: bool) -> _Json:
    return {"header_filter": {"header": {"name": name, "present_match": not absent}}}
