"""Bodies of `/v1/responses`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.conversation import Tool, Turn, formed, rendered
from simulator.engine import Request
from simulator.openai.fields import (
    ApiError,
    bad,
    boolean,
    check_model,
    check_sampling,
    faults,
    limit,
    stops,
    texts,
)
from simulator.openai.requests import ApiRequest
from simulator.openai.tools import arguments, called, tool_of
from simulator.responses_api.formats import ResponseFormat
from simulator.structured import SchemaError
from simulator.text import Answer, document

_TEXTS = ("input_text", "output_text", "text")
_NOT_STORED = (
    "This vLLM engine does not support `store=True` and therefore does not support the background"
    " mode."
)


def parse_response(body: Mapping[str, Any], names: Sequence[str], fault: str | None) -> ApiRequest:
    """`/v1/responses`. Raises ApiError."""
    check_model(body, names)
    _check_options(body)
    turns = _turns(body)
    choice, named = _choice(body)
    offered = _tools(body)
    tools = offered if choice != "none" else []
    tool = called(choice, named, tools, turns)
    engine = Request(
        prompt=rendered(turns, tools),
        max_tokens=None,
        at_most=limit(body, "max_output_tokens", None),
        answer=arguments(tool) or _document(body),
        stop=stops(body, "stop"),
        faults=faults(fault, body),
    )
    return ApiRequest(
        engine=engine,
        stream=boolean(body, "stream"),
        format=ResponseFormat(names[0], body, tool=tool.name if tool else None),
    )


def not_found(response_id: object) -> ApiError:
    """No response is stored, so none is found."""
    message = f"Response with id '{response_id}' not found."
    return ApiError(404, "invalid_request_error", message, "response_id")


def _check_options(body: Mapping[str, Any]) -> None:
    check_sampling(body)
    if body.get("prompt") is not None:
        raise bad("prompt template is not supported", "prompt")
    if boolean(body, "background"):
        raise ApiError(400, "invalid_request_error", _NOT_STORED, "background")
    if body.get("previous_response_id") is not None:
        raise not_found(body["previous_response_id"])


def _turns(body: Mapping[str, Any]) -> list[Turn]:
    given = body.get("input")
    instructions = body.get("instructions")
    system = [Turn("system", instructions)] if isinstance(instructions, str) else []
    if isinstance(given, str) and given:
        return [*system, Turn("user", given)]
    if not isinstance(given, list) or not given:
        raise bad("input must be a non-empty string or a non-empty list of items", "input")
    found = (_turn(item, f"input[{index}]") for index, item in enumerate(given))
    return [*system, *(turn for turn in found if turn)]


def _turn(item: object, where: str) -> Turn | None:
    """None for an item that the model does not see."""
    if not isinstance(item, Mapping):
        raise bad(f"{where} must be an object", "input")
    kind = item.get("type", "message")
    if kind == "reasoning":
        return None
    if kind == "function_call" and isinstance(item.get("arguments"), str):
        return Turn("assistant", item["arguments"])
    if kind == "function_call_output":
        return Turn("tool", texts(item.get("output"), _TEXTS, where))
    if kind != "message" or not isinstance(item.get("role"), str):
        raise bad(
            f"{where}: only messages, functions' calls and their outputs are supported", "input"
        )
    return Turn(item["role"], texts(item.get("content"), _TEXTS, where))


def _tools(body: Mapping[str, Any]) -> list[Tool]:
    """Functions; other tools are of no use here, as without a tool server in vLLM."""
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise bad("tools must be a list", "tools")
    return [
        tool_of(tool, "parameters", f"tools[{index}]")
        for index, tool in enumerate(map(_typed, tools))
        if tool["type"] == "function"
    ]


def _typed(tool: object) -> Mapping[str, Any]:
    if not isinstance(tool, Mapping) or not isinstance(tool.get("type"), str):
        raise bad("tools must be objects with a type", "tools")
    form = tool.get("format")
    if tool["type"] == "custom" and isinstance(form, Mapping) and form.get("type") == "grammar":
        raise bad("Custom tools with a grammar format are not supported", "tools")
    return tool


def _choice(body: Mapping[str, Any]) -> tuple[str, str | None]:
    choice = body.get("tool_choice")
    if choice is None:
        return "auto", None
    if choice in ("auto", "none", "required"):
        return str(choice), None
    if not isinstance(choice, Mapping) or not isinstance(choice.get("name"), str):
        raise bad("tool_choice must be auto, none, required or a function's name", "tool_choice")
    return "named", choice["name"]


def _document(body: Mapping[str, Any]) -> Answer | None:
    """What `text.format` wants instead of text."""
    wanted = body.get("text")
    form = wanted.get("format") if isinstance(wanted, Mapping) else None
    kind = form.get("type", "text") if isinstance(form, Mapping) else "text"
    if kind == "text":
        return None
    if kind == "json_object":
        return document("{}")
    try:
        return formed(form.get("schema") if isinstance(form, Mapping) else None)
    except SchemaError as error:
        raise bad(f"text.format: {error}", "text") from error
