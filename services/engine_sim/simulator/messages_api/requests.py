"""Bodies of `/v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulator.conversation import Tool, Turn, formed, rendered
from simulator.engine import Request
from simulator.messages_api.formats import MessageFormat
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
from simulator.openai.requests import ApiRequest
from simulator.openai.tools import arguments, called, tool_of
from simulator.structured import SchemaError
from simulator.text import Answer, tokenise

_ROLES = ("user", "assistant", "system")
_CHOICES = {"auto": "auto", "any": "required", "tool": "named", "none": "none"}
_UNSEEN = ("thinking", "redacted_thinking")  # blocks that the model does not see
# Of Claude Code's, with a hash of its own for each request; vLLM leaves it out as well.
_BILLING = "x-anthropic-billing-header"


def parse_message(body: Mapping[str, Any], names: Sequence[str], fault: str | None) -> ApiRequest:
    """`/v1/messages`. Raises ApiError."""
    check_model(body, names)
    check_sampling(body)
    max_tokens = limit(body, "max_tokens", None)
    if max_tokens is None:
        raise bad("max_tokens: Field required", "max_tokens")
    turns = _turns(body)
    choice, named = _choice(body)
    tools = _tools(body) if choice != "none" else []
    tool = called(choice, named, tools, turns)
    engine = Request(
        prompt=rendered(turns, tools),
        max_tokens=None,
        at_most=max_tokens,
        answer=arguments(tool) or _document(body),
        stop=stops(body, "stop_sequences"),
        faults=faults(fault, body),
    )
    return ApiRequest(
        engine=engine,
        stream=boolean(body, "stream"),
        format=MessageFormat(names[0], tool=tool.name if tool else None),
    )


def count_tokens(body: Mapping[str, Any], names: Sequence[str]) -> int:
    """`/v1/messages/count_tokens`: tokens of the prompt. Raises ApiError."""
    check_model(body, names)
    choice, _ = _choice(body)
    return len(tokenise(rendered(_turns(body), _tools(body) if choice != "none" else [])))


def _turns(body: Mapping[str, Any]) -> list[Turn]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad("messages must be a non-empty list", "messages")
    system = body.get("system")
    if isinstance(system, list):
        system = [block for block in system if not _is_billing(block)]
    head = [Turn("system", texts(system, ("text",), "system"))] if system else []
    return [*head, *(turn for at, each in enumerate(messages) for turn in _of_message(each, at))]


def _is_billing(block: object) -> bool:
    return isinstance(block, Mapping) and str(block.get("text")).startswith(_BILLING)


def _of_message(message: object, index: int) -> Iterator[Turn]:
    """A turn for each result of a tool, and one for the rest."""
    where = f"messages[{index}]"
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or role not in _ROLES:
        raise bad(f"{where}.role must be user, assistant or system", "messages")
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = ""
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "tool_result":
            yield Turn("tool", texts(block.get("content"), ("text",), where))
        elif kind == "tool_use":
            said += json.dumps(block.get("input"))
        elif kind not in _UNSEEN:
            said += texts([block], ("text",), where)
    if said or role == "assistant":
        yield Turn(str(role), said)


def _tools(body: Mapping[str, Any]) -> list[Tool]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise bad("tools must be a list", "tools")
    return [tool_of(tool, "input_schema", f"tools[{at}]") for at, tool in enumerate(tools)]


def _choice(body: Mapping[str, Any]) -> tuple[str, str | None]:
    choice = body.get("tool_choice")
    if choice is None:
        return "auto", None
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    name = choice.get("name") if isinstance(choice, Mapping) else None
    if not isinstance(kind, str) or kind not in _CHOICES:
        raise bad("tool_choice.type must be auto, any, tool or none", "tool_choice")
    if kind == "tool" and not name:
        raise bad("tool_choice.name is required when type is 'tool'", "tool_choice")
    return _CHOICES[kind], name


def _document(body: Mapping[str, Any]) -> Answer | None:
    """What `output_config.format` wants instead of text."""
    config = body.get("output_config")
    form = config.get("format") if isinstance(config, Mapping) else None
    if not isinstance(form, Mapping):
        return None
    try:
        return formed(form.get("schema"))
    except SchemaError as error:
        raise bad(f"output_config.format: {error}", "output_config") from error
