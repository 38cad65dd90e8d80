"""Errors in the form of the Messages API, with the types that its documentation has."""

from __future__ import annotations

from typing import Any

PATHS = "/v1/messages"
_TYPES = {
    400: "invalid_request_error",
    404: "not_found_error",
    413: "request_too_large",
    529: "overloaded_error",
}
_STATUSES = {503: 529}  # what this API has for statuses that it does not have


def refusal(status: int, message: str) -> tuple[int, dict[str, Any]]:
    """Status and body, from the status of OpenAI's APIs."""
    status = _STATUSES.get(status, status)
    kind = _TYPES.get(status, "api_error")
    return status, {"type": "error", "error": {"type": kind, "message": message}}
