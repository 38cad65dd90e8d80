"""Bodies of Chat Completions and Completions, with a clear error for what is not supported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.conversation import Tool, Turn, formed, rendered
from simulator.engine import Request
from simulator.openai.fields import (
    bad,
    boolean,
    check_model,
    check_sampling,
    faults,
    limit,
    stops,
    texts,
)
from simulator.openai.formats import ChatFormat, CompletionFormat, Format
from simulator.openai.tools import arguments, called, tool_of
from simulator.structured import SchemaError
from simulator.text import Answer, document

_DEFAULT_COMPLETION_TOKENS = 16  # the OpenAI API's default for /v1/completions


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request of any endpoint, and the form of its answer."""

    engine: Request
    stream: bool
    format: Format


def parse_chat(body: Mapping[str, Any], names: Sequence[str], fault: str | None) -> ApiRequest:
    """`/v1/chat/completions`. Raises ApiError."""
    check_model(body, names)
    _check_options(body)
    turns = _turns(body.get("messages"))
    choice, named = _choice(body)
    tools = _tools(body) if choice != "none" else []
    tool = called(choice, named, tools, turns)
    newer = body.get("max_completion_tokens") is not None  # null is the same as nothing
    engine = Request(
        prompt=rendered(turns, tools),
        max_tokens=limit(body, "max_completion_tokens" if newer else "max_tokens", None),
        answer=arguments(tool) or _document(body),
        stop=stops(body, "stop"),
        faults=faults(fault, body),
    )
    stream = boolean(body, "stream")
    return ApiRequest(
        engine=engine,
        stream=stream,
        format=ChatFormat(
            names[0],
            includes_usage=_includes_usage(body, stream=stream),
            tool=tool.name if tool else None,
            tool_ends="stop" if choice == "named" else "tool_calls",
        ),
    )


def parse_completion(
    body: Mapping[str, Any], names: Sequence[str], fault: str | None
) -> ApiRequest:
    """`/v1/completions`. Raises ApiError."""
    check_model(body, names)
    _check_options(body)
    for name in ("echo", "suffix", "best_of"):
        if body.get(name) not in (None, False, "", 1):
            raise bad(f"{name} is not supported", name)
    prompt, prompt_tokens = _completion_prompt(body.get("prompt"))
    engine = Request(
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=limit(body, "max_tokens", _DEFAULT_COMPLETION_TOKENS),
        answer=_document(body),
        stop=stops(body, "stop"),
        faults=faults(fault, body),
    )
    stream = boolean(body, "stream")
    usage = _includes_usage(body, stream=stream)
    return ApiRequest(
        engine=engine, stream=stream, format=CompletionFormat(names[0], includes_usage=usage)
    )


def _check_options(body: Mapping[str, Any]) -> None:
    if body.get("n") not in (None, 1):
        raise bad("n must be 1", "n")
    if body.get("logprobs"):
        raise bad("logprobs is not supported", "logprobs")
    check_sampling(body)


def _includes_usage(body: Mapping[str, Any], *, stream: bool) -> bool:
    options = body.get("stream_options")
    if options is not None and not (stream and isinstance(options, dict)):
        raise bad("Stream options can only be defined when `stream=True`.", "stream_options")
    return boolean(options or {}, "include_usage")


def _tools(body: Mapping[str, Any]) -> list[Tool]:
    tools = body.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list) or not tools:
        raise bad(
            "`tools` must not be an empty array. Either provide at least one tool or omit the"
            " field entirely.",
            "tools",
        )
    return [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]


def _tool(tool: object, where: str) -> Tool:
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        raise bad(f"{where}: only functions are supported", "tools")
    return tool_of(tool.get("function"), "parameters", f"{where}.function")


def _choice(body: Mapping[str, Any]) -> tuple[str, str | None]:
    choice = body.get("tool_choice")
    if choice is None:
        return "auto", None
    if choice in ("auto", "none", "required"):
        return str(choice), None
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise bad(
            f"Invalid value for `tool_choice`: {choice}! Only named tools, "
            '"none", "auto" or "required" are supported.',
            "tool_choice",
        )
    return "named", name


def _document(body: Mapping[str, Any]) -> Answer | None:
    """What `response_format` wants instead of text."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if wanted is None or kind == "text":
        return None
    if kind == "json_object":
        return document("{}")
    described = wanted.get("json_schema")
    if kind != "json_schema" or not isinstance(described, Mapping):
        raise bad(
            "response_format must have the type text, json_object or json_schema, which needs its"
            " 'json_schema'",
            "response_format",
        )
    try:
        return formed(described.get("schema", True))
    except SchemaError as error:
        raise bad(f"response_format: {error}", "response_format") from error


def _turns(messages: object) -> list[Turn]:
    if not isinstance(messages, list) or not messages:
        raise bad("messages must be a non-empty list", "messages")
    return [_turn(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _turn(message: object, where: str) -> Turn:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise bad(f"{where} must be an object with a role", "messages")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise bad(f"{where}.tool_calls must be a list", "messages")
    said = texts(message.get("content"), ("text",), where)
    return Turn(message["role"], said + "".join(_arguments(call, where) for call in calls))


def _arguments(call: object, where: str) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    text = function.get("arguments") if isinstance(function, Mapping) else None
    if not isinstance(text, str):
        raise bad(f"{where}.tool_calls: a function needs its arguments as a string", "messages")
    return text


def _completion_prompt(prompt: object) -> tuple[str, tuple[int, ...] | None]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt, None
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return " ".join(map(str, prompt)), tuple(prompt)
    raise bad("prompt must be one non-empty string or one list of token ids", "prompt")
