"""The official SDKs of OpenAI and Anthropic, and their types as judges of what servers send.

The SDKs themselves take whatever comes; here each answer and each event must be valid under the
type that the SDK has for it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from anthropic.types import ErrorResponse, Message, MessageTokensCount, RawMessageStreamEvent
from api_requests import PATHS, Api, WrongRequest, body_for
from hang import HANG_S
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.shared import ErrorObject
from pydantic import TypeAdapter

_RESPONSE_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_MESSAGE_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


@dataclass(slots=True)
class Answered:
    """What a client has of an answer, whole or streamed. `events` are the kinds of its events."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)  # name and arguments
    ends: str = ""
    tokens: int = 0
    events: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refused:
    status: int
    body: Any  # valid under the type of the API's errors
    headers: Mapping[str, str]


class Clients:
    """Both SDKs, for one server."""

    def __init__(self, url: str) -> None:
        self.openai = openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=HANG_S
        )
        self.anthropic = anthropic.AsyncAnthropic(
            base_url=url, api_key="unused", max_retries=0, timeout=HANG_S
        )

    async def ask(self, api: Api, body: Mapping[str, Any]) -> Answered:
        return await _WHOLE[api](self, body)

    async def stream(self, api: Api, body: Mapping[str, Any]) -> Answered:
        """Like `ask`, with an answer that comes as a stream."""
        return await _STREAMED[api](self, body)

    async def refused(self, model: str, request: WrongRequest) -> Refused:
        """How a wrong request is refused. It fails if the request is answered."""
        return await self.refusal(request.api, body_for(model, request))

    async def refusal(self, api: Api, body: Mapping[str, Any] | bytes) -> Refused:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = PATHS[api]
        if api in ("chat", "responses"):
            return await _openai_refusal(self.openai, path.removeprefix("/v1"), content)
        return await _anthropic_refusal(self.anthropic, path, content)


@asynccontextmanager
async def clients(url: str) -> AsyncIterator[Clients]:
    made = Clients(url)
    async with made.openai, made.anthropic:
        yield made


async def _openai_refusal(client: openai.AsyncOpenAI, path: str, content: bytes) -> Refused:
    headers = {"content-type": "application/json"}
    try:
        answer = await client.post(
            path, content=content, cast_to=object, options={"headers": headers}
        )
    except openai.APIStatusError as error:
        ErrorObject.model_validate({"code": None, **_known_code(error.body)})
        return Refused(error.status_code, error.body, error.response.headers)
    raise AssertionError(f"it was answered: {answer}")


def _known_code(error: Any) -> dict[str, Any]:
    """vLLM's code is the status as a number; OpenAI's is a word or null."""
    assert isinstance(error, dict), error
    return {**error, "code": None if error.get("code") is None else str(error["code"])}


async def _anthropic_refusal(
    client: anthropic.AsyncAnthropic, path: str, content: bytes
) -> Refused:
    headers = {"content-type": "application/json"}
    try:
        answer = await client.post(
            path, content=content, cast_to=object, options={"headers": headers}
        )
    except anthropic.APIStatusError as error:
        if error.status_code != 413:  # documented as request_too_large, for which there is no type
            ErrorResponse.model_validate(error.body)
        return Refused(error.status_code, error.body, error.response.headers)
    raise AssertionError(f"it was answered: {answer}")


async def _chat(clients: Clients, body: Mapping[str, Any]) -> Answered:
    reply = await clients.openai.chat.completions.create(**body)
    (choice,) = ChatCompletion.model_validate(reply.to_dict()).choices
    assert reply.usage is not None
    calls = [
        (call.function.name, json.loads(call.function.arguments))
        for call in choice.message.tool_calls or []
        if call.type == "function"
    ]
    return Answered(
        choice.message.content or "", calls, choice.finish_reason, reply.usage.completion_tokens
    )


async def _chat_stream(clients: Clients, body: Mapping[str, Any]) -> Answered:
    answered, calls = Answered(), _Calls()
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    create: Any = clients.openai.chat.completions.create
    async for sent in await create(**streamed):
        chunk = ChatCompletionChunk.model_validate(sent.to_dict())
        answered.events.append(chunk.object)
        if chunk.usage is not None:
            answered.tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            answered.text += choice.delta.content or ""
            answered.ends = choice.finish_reason or answered.ends
            for call in choice.delta.tool_calls or []:
                assert call.function is not None
                calls.add(call.index, call.function.name, call.function.arguments)
    answered.calls = calls.all()
    return answered


async def _responses(clients: Clients, body: Mapping[str, Any]) -> Answered:
    reply = await clients.openai.responses.create(**body)
    return _of_response(Response.model_validate(reply.to_dict()))


async def _responses_stream(clients: Clients, body: Mapping[str, Any]) -> Answered:
    calls, text, final = _Calls(), "", None
    kinds: list[str] = []
    async for sent in await clients.openai.responses.create(**body, stream=True):
        event = _RESPONSE_EVENT.validate_python(sent.to_dict())
        assert event.sequence_number == len(kinds)
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.output_item.added" and event.item.type == "function_call":
            calls.add(event.output_index, event.item.name, event.item.arguments)
        elif event.type == "response.function_call_arguments.delta":
            calls.add(event.output_index, None, event.delta)
        elif event.type in ("response.completed", "response.incomplete"):
            final = event.response
    assert final is not None, kinds
    answered = _of_response(final)
    assert (text, calls.all()) == (answered.text, answered.calls)
    answered.events = kinds
    return answered


def _of_response(response: Response) -> Answered:
    assert response.usage is not None
    calls = [
        (item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    return Answered(
        response.output_text, calls, response.status or "", response.usage.output_tokens
    )


async def _messages(clients: Clients, body: Mapping[str, Any]) -> Answered:
    reply = await clients.anthropic.messages.create(**_for_sdk(body))
    message = Message.model_validate(reply.to_dict())
    answered = Answered(ends=message.stop_reason or "", tokens=message.usage.output_tokens)
    for block in message.content:
        if block.type == "text":
            answered.text += block.text
        elif block.type == "tool_use":
            answered.calls.append((block.name, block.input))
    return answered


async def _messages_stream(clients: Clients, body: Mapping[str, Any]) -> Answered:
    answered, calls = Answered(), _Calls()
    async for sent in await clients.anthropic.messages.create(**_for_sdk(body), stream=True):
        event = _MESSAGE_EVENT.validate_python(sent.to_dict())
        answered.events.append(event.type)
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            calls.add(event.index, event.content_block.name, "")
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            answered.text += event.delta.text
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            calls.add(event.index, None, event.delta.partial_json)
        elif event.type == "message_delta":
            answered.ends = event.delta.stop_reason or ""
            answered.tokens = event.usage.output_tokens
    answered.calls = calls.all()
    return answered


async def _count(clients: Clients, body: Mapping[str, Any]) -> Answered:
    reply = await clients.anthropic.messages.count_tokens(**body)
    return Answered(tokens=MessageTokensCount.model_validate(reply.to_dict()).input_tokens)


def _for_sdk(body: Mapping[str, Any]) -> dict[str, Any]:
    """The SDK has no parameter for a temperature any more; models that are served here have one."""
    others = {name: value for name, value in body.items() if name != "temperature"}
    return {**others, "extra_body": {"temperature": body["temperature"]}}


class _Calls:
    """Calls of a stream, put together from their parts."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[str, str]] = {}

    def add(self, index: int, name: str | None, arguments: str | None) -> None:
        known_name, known_arguments = self._parts.get(index, ("", ""))
        self._parts[index] = (known_name or name or "", known_arguments + (arguments or ""))

    def all(self) -> list[tuple[str, Any]]:
        return [(name, json.loads(text)) for name, text in self._parts.values()]


_Ask = Callable[[Clients, Mapping[str, Any]], Awaitable[Answered]]
_WHOLE: Mapping[Api, _Ask] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "count_tokens": _count,
}
_STREAMED: Mapping[Api, _Ask] = {
    "chat": _chat_stream,
    "responses": _responses_stream,
    "messages": _messages_stream,
}
