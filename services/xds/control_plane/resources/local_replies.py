"""Envoy's own errors in the client's protocol: OpenAI's or Anthropic's JSON for HTTP, a status for
gRPC."""

from __future__ import annotations

from typing import Any

from .replies import (
    BODY_TOO_LARGE,
    MESSAGES_PATH,
    MODEL_MISSING,
    MODEL_NAMELESS,
    NO_HEALTHY_REPLICA,
    OVERLOADED,
    REPLICA_LOST,
    RETRY_AFTER_S,
    STORED_PATHS,
    error,
    message_error,
    nothing_stored,
)
from .routes import MODEL_HEADER, NO_MODEL

_Json = dict[str, Any]


def local_reply_config() -> _Json:
    """First match wins. For gRPC the text becomes the grpc-message."""
    kind = "invalid_request_error"
    missing = error(MODEL_MISSING, kind=kind, code=None, param="model")
    too_large = error(BODY_TOO_LARGE, kind=kind, code="request_too_large")
    unavailable = error(NO_HEALTHY_REPLICA, kind="service_unavailable", code="no_healthy_replica")
    lost = error(REPLICA_LOST, kind="service_unavailable", code="replica_lost")
    overloaded = error(OVERLOADED, kind="rate_limit_error", code="overloaded")
    return {
        "mappers": [
            _grpc(_lost(), REPLICA_LOST, status=500),  # UNKNOWN: clients ask again on UNAVAILABLE
            _grpc(_overflow(), OVERLOADED),
            _grpc(_all(_flags("NC"), _unnamed()), MODEL_NAMELESS, status=400),
            _grpc(_no_replica(), NO_HEALTHY_REPLICA),
            *_of_messages(),
            _http(_lost(), 503, lost),
            _http(_all(_flags("NC"), _unnamed(), _below(STORED_PATHS)), 404, nothing_stored()),
            _http(_all(_flags("NC"), _unnamed()), 400, missing),
            _http(_status(413), 413, too_large),
            _retry_later(_http(_overflow(), 429, overloaded)),
            _retry_later(_http(_no_replica(), 503, unavailable)),
        ]
    }


def _of_messages() -> list[_Json]:
    """Those of the Messages API, whose statuses differ: 529 where a client shall come back."""

    def reply(when: _Json, status: int, message: str, kind: str) -> _Json:
        return _http(_all(_below(MESSAGES_PATH), when), status, message_error(message, kind=kind))

    unnamed = _all(_flags("NC"), _unnamed())
    return [
        reply(_lost(), 500, REPLICA_LOST, "api_error"),
        reply(unnamed, 400, MODEL_MISSING, "invalid_request_error"),
        reply(_status(413), 413, BODY_TOO_LARGE, "request_too_large"),
        _retry_later(reply(_overflow(), 429, OVERLOADED, "rate_limit_error")),
        _retry_later(reply(_no_replica(), 529, NO_HEALTHY_REPLICA, "overloaded_error")),
    ]


def _lost() -> _Json:
    """The connection or the stream ended while the replica worked on the request."""
    return _flags("UC", "UR")


def _overflow() -> _Json:
    return _flags("UO")  # of a circuit breaker


def _no_replica() -> _Json:
    """No healthy one, no such cluster, or none that lets itself be connected to. The flag of a
    failed connection also stays after a retry, which may have run into a timeout (504)."""
    return _any(_flags("UH", "NC"), _all(_flags("UF"), _status(503)))


def _http(when: _Json, status: int, body: _Json) -> _Json:
    override = {"json_format": body}
    return {"filter": when, "status_code": status, "body_format_override": override}


def _retry_later(mapper: _Json) -> _Json:
    header = {"key": "retry-after", "value": str(RETRY_AFTER_S)}
    added = {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {**mapper, "headers_to_add": [added]}


def _grpc(when: _Json, message: str, *, status: int | None = None) -> _Json:
    is_grpc = {"name": "content-type", "string_match": {"prefix": "application/grpc"}}
    return {
        "filter": _all(when, {"header_filter": {"header": is_grpc}}),
        **({} if status is None else {"status_code": status}),
        "body": {"inline_string": message},
        "body_format_override": {"text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"}},
    }


def _all(*filters: _Json) -> _Json:
    return {"and_filter": {"filters": list(filters)}}


def _any(*filters: _Json) -> _Json:
    return {"or_filter": {"filters": list(filters)}}


def _flags(*flags: str) -> _Json:
    return {"response_flag_filter": {"flags": list(flags)}}


def _status(code: int) -> _Json:
    equal = {"op": "EQ", "value": {"default_value": code, "runtime_key": "slipway.unused"}}
    return {"status_code_filter": {"comparison": equal}}


def _below(path: str) -> _Json:
    header = {"name": ":path", "string_match": {"prefix": path}}
    return {"header_filter": {"header": header}}


def _unnamed() -> _Json:
    """The request names no model, so the header still has its first value."""
    header = {"name": MODEL_HEADER, "string_match": {"exact": NO_MODEL}}
    return {"header_filter": {"header": header}}
