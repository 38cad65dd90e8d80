"""Errors in the form of the Messages API, with the types that its documentation has."""

from __future__ import annotations

from typing import Any

PATHS = "/v1/messages"
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_OTHER_TYPES = {4: "invalid_request_error", 5: "api_error"}  # by the first digit
_STATUSES = {422: 400, 503: 529}  # what this API has for statuses that it does not have


def refusal(status: int, message: str) -> tuple[int, dict[str, Any]]:
    """Status and body, from the status of OpenAI's APIs."""
    status = _STATUSES.get(status, status)
    kind = _TYPES.get(status) or _OTHER_TYPES[status // 100]
    return status, {"type": "error", "error": {"type": kind, "message": message}}
