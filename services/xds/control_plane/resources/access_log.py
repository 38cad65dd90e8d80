"""One JSON line per request on Envoy's standard output."""

from __future__ import annotations

from typing import Any

from .routes import MODEL_HEADER

_FIELDS = {
    "time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(:PATH)%",
    "model": f"%REQ({MODEL_HEADER})%",
    "status": "%RESPONSE_CODE%",
    "grpc_status": "%GRPC_STATUS_NUMBER%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "duration_ms": "%DURATION%",
    "first_byte_ms": "%RESPONSE_DURATION%",
    "upstream": "%UPSTREAM_HOST%",
    "cluster": "%UPSTREAM_CLUSTER%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "request_id": "%REQ(X-REQUEST-ID)%",
}


def stdout_json() -> list[dict[str, Any]]:
    """The connection manager's access loggers. Prompts and answers are never logged."""
    type_url = "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
    log_format = {"json_format": dict(_FIELDS), "omit_empty_values": True}
    return [
        {
            "name": "envoy.access_loggers.stdout",
            "typed_config": {"@type": type_url, "log_format": log_format},
            "filter": {"not_health_check_filter": {}},
        }
    ]
