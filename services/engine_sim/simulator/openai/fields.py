"""Fields that the bodies of several APIs have, and the error for a wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.faults import FAULT_HEADER, NONE, BadFaultError, Faults, parse_text


class ApiError(Exception):
    """A request that is refused, in the terms of OpenAI's errors."""

    headers: Mapping[str, str] = {}

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status,
        }
        return {"error": error}


class TurnedAwayError(ApiError):
    """A member of the replica's group may be lost: the gateway tries another replica (see
    UNREACHABLE_HEADER of the control plane's routes)."""

    headers: Mapping[str, str] = {"x-slipway-replica-unreachable": "true"}

    def __init__(self) -> None:
        super().__init__(503, "ServiceUnavailableError", "a member of this replica may be lost")


def bad(message: str, param: str) -> ApiError:
    return ApiError(400, "BadRequestError", message, param)


def check_model(body: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises ApiError if the body names another model."""
    model = body.get("model") or names[0]
    if model not in names:
        raise ApiError(404, "NotFoundError", f"The model `{model}` does not exist.", "model")


def limit(body: Mapping[str, Any], name: str, default: int | None) -> int | None:
    """A number of tokens. Raises ApiError."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        raise bad(f"{name} must be at least 1, got {value!r}.", name)
    return value


def check_sampling(body: Mapping[str, Any]) -> None:
    """Sampling changes nothing here, but must be right. Raises ApiError."""
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise bad(f"{name} must be a number, got {value!r}.", name)


def boolean(body: Mapping[str, Any], name: str) -> bool:
    """False if it is left out. Raises ApiError."""
    value = body.get(name)
    if value not in (None, True, False):
        raise bad(f"{name} must be true or false", name)
    return bool(value)


def stops(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Stop strings: one, or a list of them. Raises ApiError."""
    value = body.get(name)
    found = [value] if isinstance(value, str) else (value or [])
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        raise bad(f"{name} must be a non-empty string or a list of them", name)
    return tuple(found)


def texts(content: object, kinds: Sequence[str], where: str) -> str:
    """The text of a message: a string, or a list of parts of these kinds. Raises ApiError."""
    parts = content if isinstance(content, list) else [{"type": kinds[0], "text": content or ""}]
    found = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) and part.get("type") in kinds else None
        if not isinstance(text, str):
            raise bad(f"{where}.content: only text is supported", where.partition("[")[0])
        found.append(text)
    return "".join(found)


def faults(header: str | None, body: Mapping[str, Any]) -> Faults:
    """Those that the request asks for. Raises ApiError."""
    text = header or body.get("slipway_fault")
    if text is None:
        return NONE
    try:
        return parse_text(str(text))
    except BadFaultError as error:
        raise bad(str(error), FAULT_HEADER) from error
