"""Requests that clients make of Chat Completions, Responses and Messages, right and wrong ones.

The tests of the simulated engine, of the real one and of the gateway all make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["chat", "responses", "messages", "count_tokens"]
Expected = Literal["text", "tool", "document", "text or tool", "count"]

MODEL = "@model@"  # stands for the name of the model that is asked
PATHS: Mapping[Api, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
}
# What answers are streamed in.
EVENTS: Mapping[Api, tuple[str, ...]] = {
    "chat": ("chat.completion.chunk",),
    "responses": (
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ),
    "messages": (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ),
}
# Schemas without free text: a small model does not end a string.
TOOL = "get_weather"
TOOL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Paris", "Rome", "Oslo"]},
        "celsius": {"type": "boolean"},
    },
    "required": ["city", "celsius"],
    "additionalProperties": False,
}
DOCUMENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["pass", "fail"]},
        "sure": {"type": "boolean"},
    },
    "required": ["verdict", "sure"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RightRequest:
    """A request that is answered. Its feature is a row of docs/clients.md."""

    api: Api
    feature: str
    body: Mapping[str, Any]
    expected: Expected = "text"
    ends: str = ""  # the reason for which the answer ends, where it is always the same


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRequest:
    """A request that is refused with the status that the API's documentation has for it."""

    api: Api
    mistake: str
    body: Mapping[str, Any] | bytes
    status: int = 400


def _user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _chat(**fields: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": _user("Say hello."),
        "max_tokens": 6,
        "temperature": 0,
        **fields,
    }


def _responses(**fields: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "input": "Say hello.",
        "max_output_tokens": 6,
        "temperature": 0,
        **fields,
    }


def _messages(**fields: Any) -> dict[str, Any]:
    return _chat(**fields)


def _count(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": _user("Say hello."), **fields}


_ASKS = f"What is the weather in Paris? Use {TOOL}."
_ENOUGH = 64  # tokens, for a call or a document of the schemas above
# Not strict, a call's arguments are whatever the model writes: vLLM's --tool-strict-level.
_NAMED = {"name": TOOL, "description": "The weather of a city.", "strict": True}
_FUNCTION = {**_NAMED, "parameters": TOOL_SCHEMA}
_CHAT_TOOLS = [{"type": "function", "function": _FUNCTION}]
_RESPONSES_TOOLS = [{"type": "function", **_FUNCTION}]
_MESSAGES_TOOLS = [{**_NAMED, "input_schema": TOOL_SCHEMA}]
_ARGUMENTS = '{"city": "Paris", "celsius": true}'
_CALLED_IN_CHAT = [
    *_user(_ASKS),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": TOOL, "arguments": _ARGUMENTS},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
]
_CALLED_IN_RESPONSES = [
    *_user(_ASKS),
    {"type": "function_call", "call_id": "call_1", "name": TOOL, "arguments": _ARGUMENTS},
    {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"},
]
_CALLED_IN_MESSAGES = [
    *_user(_ASKS),
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look it up."},
            {
                "type": "tool_use",
                "id": "call_1",
                "name": TOOL,
                "input": {"city": "Paris", "celsius": True},
            },
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "18 degrees"}],
    },
]
_NAMED_FORMAT = {"name": "verdict", "schema": DOCUMENT_SCHEMA}
_LONG = "word " * 20_000

RIGHT: tuple[RightRequest, ...] = (
    RightRequest(api="chat", feature="text", body=_chat(), ends="length"),
    RightRequest(
        api="chat",
        feature="system messages, content parts",
        body=_chat(
            messages=[
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": [{"type": "text", "text": "Say hello."}]},
            ]
        ),
    ),
    RightRequest(
        api="chat",
        feature="max_completion_tokens",
        body={**_chat(), "max_tokens": None, "max_completion_tokens": 3},
        ends="length",
    ),
    RightRequest(api="chat", feature="stop", body=_chat(stop=["\n\n"])),
    RightRequest(
        api="chat",
        feature="prompt_cache_key, user",
        body=_chat(user="someone", prompt_cache_key="a-session"),
    ),
    RightRequest(
        api="chat",
        feature="tools, called by name",
        body=_chat(
            messages=_user(_ASKS),
            tools=_CHAT_TOOLS,
            tool_choice={"type": "function", "function": {"name": TOOL}},
            max_tokens=_ENOUGH,
        ),
        expected="tool",
        ends="stop",  # OpenAI's own API does so, too
    ),
    RightRequest(
        api="chat",
        feature="tools, tool_choice required",
        body=_chat(
            messages=_user(_ASKS), tools=_CHAT_TOOLS, tool_choice="required", max_tokens=_ENOUGH
        ),
        expected="tool",
        ends="tool_calls",
    ),
    RightRequest(
        api="chat",
        feature="tools, tool_choice auto",
        body=_chat(messages=_user(_ASKS), tools=_CHAT_TOOLS, max_tokens=_ENOUGH),
        expected="text or tool",
    ),
    RightRequest(
        api="chat",
        feature="tools, tool_choice none",
        body=_chat(messages=_user(_ASKS), tools=_CHAT_TOOLS, tool_choice="none"),
    ),
    RightRequest(
        api="chat",
        feature="results of tools",
        body=_chat(messages=_CALLED_IN_CHAT, tools=_CHAT_TOOLS),
        expected="text or tool",
    ),
    RightRequest(
        api="chat",
        feature="structured output by a schema",
        body=_chat(
            response_format={"type": "json_schema", "json_schema": {**_NAMED_FORMAT}},
            max_tokens=_ENOUGH,
        ),
        expected="document",
        ends="stop",
    ),
    RightRequest(api="responses", feature="text", body=_responses(), ends="incomplete"),
    RightRequest(
        api="responses",
        feature="instructions, a list of items",
        body=_responses(
            instructions="Be short.",
            input=[
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Say hello."}],
                }
            ],
        ),
    ),
    RightRequest(
        api="responses",
        feature="whole conversations as input",
        body=_responses(
            input=[
                *_user("Say hello."),
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hello."}],
                },
                *_user("Again."),
            ],
            store=False,
        ),
    ),
    RightRequest(
        api="responses",
        feature="prompt_cache_key, user, metadata",
        body=_responses(prompt_cache_key="a-session", user="someone", metadata={"run": "7"}),
    ),
    RightRequest(
        api="responses",
        feature="tools, called by name",
        body=_responses(
            input=_ASKS,
            tools=_RESPONSES_TOOLS,
            tool_choice={"type": "function", "name": TOOL},
            max_output_tokens=_ENOUGH,
        ),
        expected="tool",
        ends="completed",
    ),
    RightRequest(
        api="responses",
        feature="tools, tool_choice required",
        body=_responses(
            input=_ASKS, tools=_RESPONSES_TOOLS, tool_choice="required", max_output_tokens=_ENOUGH
        ),
        expected="tool",
        ends="completed",
    ),
    RightRequest(
        api="responses",
        feature="tools, tool_choice auto",
        body=_responses(input=_ASKS, tools=_RESPONSES_TOOLS, max_output_tokens=_ENOUGH),
        expected="text or tool",
    ),
    RightRequest(
        api="responses",
        feature="results of tools",
        body=_responses(input=_CALLED_IN_RESPONSES, tools=_RESPONSES_TOOLS),
        expected="text or tool",
    ),
    RightRequest(
        api="responses",
        feature="structured output by a schema",
        body=_responses(
            text={"format": {"type": "json_schema", "strict": True, **_NAMED_FORMAT}},
            max_output_tokens=_ENOUGH,
        ),
        expected="document",
        ends="completed",
    ),
    RightRequest(api="messages", feature="text", body=_messages(), ends="max_tokens"),
    RightRequest(
        api="messages",
        feature="system blocks with cache_control",
        body=_messages(
            system=[
                {"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}},
            ]
        ),
    ),
    RightRequest(
        api="messages",
        feature="system messages between others",  # Claude Code's reminders
        body=_messages(messages=[*_user("Say hello."), {"role": "system", "content": "Go on."}]),
    ),
    RightRequest(api="messages", feature="stop_sequences", body=_messages(stop_sequences=["\n\n"])),
    RightRequest(
        api="messages",
        feature="metadata.user_id",
        body=_messages(metadata={"user_id": "a-session"}),
    ),
    RightRequest(
        api="messages",
        feature="tools, called by name",
        body=_messages(
            messages=_user(_ASKS),
            tools=_MESSAGES_TOOLS,
            tool_choice={"type": "tool", "name": TOOL},
            max_tokens=_ENOUGH,
        ),
        expected="tool",
        ends="tool_use",
    ),
    RightRequest(
        api="messages",
        feature="tools, tool_choice any",
        body=_messages(
            messages=_user(_ASKS),
            tools=_MESSAGES_TOOLS,
            tool_choice={"type": "any"},
            max_tokens=_ENOUGH,
        ),
        expected="tool",
        ends="tool_use",
    ),
    RightRequest(
        api="messages",
        feature="tools, tool_choice auto",
        body=_messages(messages=_user(_ASKS), tools=_MESSAGES_TOOLS, max_tokens=_ENOUGH),
        expected="text or tool",
    ),
    RightRequest(
        api="messages",
        feature="results of tools",
        body=_messages(messages=_CALLED_IN_MESSAGES, tools=_MESSAGES_TOOLS),
        expected="text or tool",
    ),
    RightRequest(
        api="messages",
        feature="structured output by a schema",
        body=_messages(
            output_config={"format": {"type": "json_schema", "schema": DOCUMENT_SCHEMA}},
            max_tokens=_ENOUGH,
        ),
        expected="document",
        ends="end_turn",
    ),
    RightRequest(api="count_tokens", feature="text", body=_count(), expected="count"),
    RightRequest(
        api="count_tokens",
        feature="system and tools",
        body=_count(system="Be short.", tools=_MESSAGES_TOOLS),
        expected="count",
    ),
)

WRONG: tuple[WrongRequest, ...] = (
    WrongRequest(api="chat", mistake="no JSON", body=b'{"model": '),
    WrongRequest(
        api="chat", mistake="a model that does not exist", body=_chat(model="other"), status=404
    ),
    WrongRequest(api="chat", mistake="no messages", body={"model": MODEL}),
    WrongRequest(api="chat", mistake="max_tokens of 0", body=_chat(max_tokens=0)),
    WrongRequest(
        api="chat", mistake="a temperature that is no number", body=_chat(temperature="hot")
    ),
    WrongRequest(
        api="chat", mistake="more than the context holds", body=_chat(messages=_user(_LONG))
    ),
    WrongRequest(
        api="chat",
        mistake="stream_options without a stream",
        body=_chat(stream_options={"include_usage": True}),
    ),
    WrongRequest(
        api="chat", mistake="a tool_choice without tools", body=_chat(tool_choice="required")
    ),
    WrongRequest(
        api="chat",
        mistake="a tool_choice that is not among the tools",
        body=_chat(
            tools=_CHAT_TOOLS, tool_choice={"type": "function", "function": {"name": "other"}}
        ),
    ),
    WrongRequest(
        api="chat",
        mistake="a custom tool",
        body=_chat(tools=[{"type": "custom", "custom": {"name": TOOL}}]),
    ),
    WrongRequest(
        api="chat",
        mistake="a response_format without its schema",
        body=_chat(response_format={"type": "json_schema"}),
    ),
    WrongRequest(api="responses", mistake="no JSON", body=b"[1]"),
    WrongRequest(
        api="responses",
        mistake="a model that does not exist",
        body=_responses(model="other"),
        status=404,
    ),
    WrongRequest(api="responses", mistake="no input", body={"model": MODEL}),
    WrongRequest(
        api="responses",
        mistake="a previous_response_id that is not stored",
        body=_responses(previous_response_id="resp_1"),
        status=404,
    ),
    WrongRequest(api="responses", mistake="in the background", body=_responses(background=True)),
    WrongRequest(api="responses", mistake="a prompt template", body=_responses(prompt={"id": "p"})),
    WrongRequest(
        api="responses", mistake="more than the context holds", body=_responses(input=_LONG)
    ),
    WrongRequest(
        api="responses",
        mistake="a tool_choice that is not among the tools",
        body=_responses(tools=_RESPONSES_TOOLS, tool_choice={"type": "function", "name": "other"}),
    ),
    WrongRequest(
        api="responses",
        mistake="a tool_choice without tools",
        body=_responses(tool_choice="required"),
    ),
    WrongRequest(
        api="responses",
        mistake="a custom tool with a grammar",
        body=_responses(
            tools=[
                {
                    "type": "custom",
                    "name": TOOL,
                    "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
                }
            ]
        ),
    ),
    WrongRequest(api="messages", mistake="no JSON", body=b"{"),
    WrongRequest(
        api="messages",
        mistake="a model that does not exist",
        body=_messages(model="other"),
        status=404,
    ),
    WrongRequest(api="messages", mistake="no max_tokens", body=_count()),
    WrongRequest(api="messages", mistake="max_tokens below 0", body=_messages(max_tokens=-1)),
    WrongRequest(
        api="messages",
        mistake="a role that does not exist",
        body=_messages(messages=[{"role": "tool", "content": "x"}]),
    ),
    WrongRequest(
        api="messages", mistake="a tool without a schema", body=_messages(tools=[{"name": TOOL}])
    ),
    WrongRequest(
        api="messages",
        mistake="a web search",
        body=_messages(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    ),
    WrongRequest(
        api="messages",
        mistake="a tool_choice that is not among the tools",
        body=_messages(tools=_MESSAGES_TOOLS, tool_choice={"type": "tool", "name": "other"}),
    ),
    WrongRequest(
        api="messages",
        mistake="a tool_choice without a name",
        body=_messages(tools=_MESSAGES_TOOLS, tool_choice={"type": "tool"}),
    ),
    WrongRequest(
        api="messages", mistake="more than the context holds", body=_messages(messages=_user(_LONG))
    ),
    WrongRequest(api="count_tokens", mistake="no messages", body={"model": MODEL}),
    WrongRequest(
        api="count_tokens",
        mistake="a model that does not exist",
        body=_count(model="other"),
        status=404,
    ),
)


def body_for(model: str, request: RightRequest | WrongRequest) -> dict[str, Any] | bytes:
    """The request's body, for a model of this name."""
    body = request.body
    if isinstance(body, bytes):
        return body
    named = {"model": model} if body.get("model") == MODEL else {}
    return {**body, **named}
