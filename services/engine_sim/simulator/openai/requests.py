"""Bodies of OpenAI requests, with a clear error for what is not supported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.engine import Request
from simulator.faults import FAULT_HEADER, NONE, BadFaultError, Faults, parse_text

_DEFAULT_COMPLETION_TOKENS = 16  # the OpenAI API's default for /v1/completions


class ApiError(Exception):
    """An error in OpenAI's format."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request of either endpoint."""

    engine: Request
    stream: bool
    include_usage: bool


def parse_chat(body: Mapping[str, Any], names: Sequence[str], fault: str | None) -> ApiRequest:
    """`/v1/chat/completions`. Raises ApiError."""
    _check_model(body, names)
    _refuse_tools(body)
    newer = body.get("max_completion_tokens") is not None  # null is the same as nothing
    limit = "max_completion_tokens" if newer else "max_tokens"
    return _request(
        body,
        fault,
        prompt=_render(body.get("messages")),
        prompt_tokens=None,
        max_tokens=_limit(body, limit, None),
    )


def parse_completion(
    body: Mapping[str, Any], names: Sequence[str], fault: str | None
) -> ApiRequest:
    """`/v1/completions`. Raises ApiError."""
    _check_model(body, names)
    for name in ("echo", "suffix", "best_of"):
        if body.get(name) not in (None, False, "", 1):
            raise _bad(f"{name} is not supported", name)
    prompt, prompt_tokens = _completion_prompt(body.get("prompt"))
    return _request(
        body,
        fault,
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=_limit(body, "max_tokens", _DEFAULT_COMPLETION_TOKENS),
    )


def _request(
    body: Mapping[str, Any],
    fault: str | None,
    *,
    prompt: str,
    prompt_tokens: tuple[int, ...] | None,
    max_tokens: int | None,
) -> ApiRequest:
    if body.get("n") not in (None, 1):
        raise _bad("n must be 1", "n")
    if body.get("logprobs"):
        raise _bad("logprobs is not supported", "logprobs")
    _refuse_formats(body)
    stream = _boolean(body, "stream")
    options = body.get("stream_options")
    if options is not None and not (stream and isinstance(options, dict)):
        raise _bad("Stream options can only be defined when `stream=True`.", "stream_options")
    engine = Request(
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        stop=_stops(body.get("stop")),
        faults=_faults(fault or body.get("slipway_fault")),
    )
    return ApiRequest(
        engine=engine, stream=stream, include_usage=_boolean(options or {}, "include_usage")
    )


def _check_model(body: Mapping[str, Any], names: Sequence[str]) -> None:
    model = body.get("model") or names[0]
    if model not in names:
        raise ApiError(404, "NotFoundError", f"The model `{model}` does not exist.", "model")


def _refuse_tools(body: Mapping[str, Any]) -> None:
    choice = body.get("tool_choice")
    if choice not in (None, "none"):
        raise _bad("tool_choice is not supported by this model: use 'none'", "tool_choice")
    if body.get("tools") and choice is None:
        raise _bad("tools are not supported by this model: set tool_choice to 'none'", "tools")


def _refuse_formats(body: Mapping[str, Any]) -> None:
    wanted = body.get("response_format")
    if wanted is not None and not (isinstance(wanted, dict) and wanted.get("type") == "text"):
        raise _bad("response_format other than text is not supported", "response_format")


def _render(messages: object) -> str:
    """The chat template: `<|role|>`, the content, and at the end `<|assistant|>`."""
    if not isinstance(messages, list) or not messages:
        raise _bad("messages must be a non-empty list", "messages")
    turns = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _bad(f"messages[{index}] must be an object with a role", "messages")
        turns.append(f"<|{message['role']}|>\n{_content(message.get('content'), index)}\n")
    return "".join([*turns, "<|assistant|>\n"])


def _content(content: object, index: int) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise _bad(f"messages[{index}].content: only text is supported", "messages")
        texts.append(text)
    return "".join(texts)


def _completion_prompt(prompt: object) -> tuple[str, tuple[int, ...] | None]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt, None
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return " ".join(map(str, prompt)), tuple(prompt)
    raise _bad("prompt must be one non-empty string or one list of token ids", "prompt")


def _limit(body: Mapping[str, Any], name: str, default: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        raise _bad(f"{name} must be at least 1, got {value!r}.", name)
    return value


def _stops(stop: object) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else (stop or [])
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise _bad("stop must be a non-empty string or a list of them", "stop")
    return tuple(stops)


def _boolean(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value not in (None, True, False):
        raise _bad(f"{name} must be true or false", name)
    return bool(value)


def _faults(text: object) -> Faults:
    if text is None:
        return NONE
    try:
        return parse_text(str(text))
    except BadFaultError as error:
        raise _bad(str(error), FAULT_HEADER) from error


def _bad(message: str, param: str) -> ApiError:
    return ApiError(400, "BadRequestError", message, param)
