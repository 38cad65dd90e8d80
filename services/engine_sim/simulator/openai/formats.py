"""Bodies of answers of Chat Completions and Completions, whole and in chunks."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from simulator.engine import Request
from simulator.generation import Generation
from simulator.text import tokenise

_DONE = b"data: [DONE]\n\n"


class Format(Protocol):
    """How one endpoint writes its answers; one for each request, since a stream has a state."""

    def opening(self, generation: Generation, /) -> bytes:
        """Events before the first text."""

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        """Events of some text; with the last one comes the reason for the end."""

    def closing(self, generation: Generation) -> bytes:
        """Events after the last text."""

    def whole(self, text: str, finish_reason: str, generation: Generation) -> dict[str, Any]: ...


def event(body: dict[str, Any], kind: str | None = None) -> bytes:
    """One server-sent event."""
    named = f"event: {kind}\n".encode() if kind else b""
    return named + b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def call_id() -> str:
    """As vLLM makes it."""
    return f"chatcmpl-tool-{uuid.uuid4().hex}"


def model_list(names: Sequence[str], max_model_len: int) -> dict[str, Any]:
    models = [
        {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "slipway-engine-sim",
            "root": names[0],
            "max_model_len": max_model_len,
        }
        for name in names
    ]
    return {"object": "list", "data": models}


def rendered(model: str, request: Request) -> dict[str, Any]:
    """The fields of vLLM's GenerateRequest that routers read. An id fits in 31 bits, as a
    vocabulary's do."""
    tokens = request.prompt_tokens or tokenise(request.prompt)
    return {
        "request_id": uuid.uuid4().hex,
        "model": model,
        "token_ids": [token & 0x7FFF_FFFF for token in tokens],
    }


@dataclass(slots=True)
class _Base:
    model: str
    includes_usage: bool = field(kw_only=True)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def _body(self, kind: str, prefix: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


@dataclass(slots=True)
class ChatFormat(_Base):
    """With a `tool` the text is the arguments of its call. `tool_ends` is why such an answer ends:
    calls that were asked for by name end like text, in vLLM as in OpenAI's API."""

    tool: str | None = field(default=None, kw_only=True)
    tool_ends: str = field(default="tool_calls", kw_only=True)
    _call_id: str = field(default_factory=call_id)

    def opening(self, _generation: Generation, /) -> bytes:
        opened = event(self._chunk({"role": "assistant", "content": ""}, None))
        if self.tool is None:
            return opened
        call = {"index": 0, "id": self._call_id, "type": "function"}
        named = {**call, "function": {"name": self.tool, "arguments": ""}}
        return opened + event(self._chunk({"tool_calls": [named]}, None))

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        reason = self.tool_ends if self.tool and finish_reason == "stop" else finish_reason
        return event(self._chunk(self._delta(text), reason))

    def closing(self, generation: Generation) -> bytes:
        if not self.includes_usage:
            return _DONE
        body = self._body("chat.completion.chunk", "chatcmpl", [])
        return event({**body, "usage": _usage(generation)}) + _DONE

    def whole(self, text: str, finish_reason: str, generation: Generation) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self.tool and finish_reason == "stop":
            function = {"name": self.tool, "arguments": text}
            call = {"id": self._call_id, "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            finish_reason = self.tool_ends
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": finish_reason,
            "stop_reason": generation.stop_string,
        }
        body = self._body("chat.completion", "chatcmpl", [choice])
        return {**body, "usage": _usage(generation)}

    def _delta(self, text: str) -> dict[str, Any]:
        if not text:
            return {}
        if self.tool is None:
            return {"content": text}
        return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self._body("chat.completion.chunk", "chatcmpl", [choice])


@dataclass(slots=True)
class CompletionFormat(_Base):
    def opening(self, _generation: Generation, /) -> bytes:
        return b""

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        return event(self._choice(text, finish_reason))

    def closing(self, generation: Generation) -> bytes:
        if not self.includes_usage:
            return _DONE
        body = self._body("text_completion", "cmpl", [])
        return event({**body, "usage": _usage(generation)}) + _DONE

    def whole(self, text: str, finish_reason: str, generation: Generation) -> dict[str, Any]:
        return {**self._choice(text, finish_reason), "usage": _usage(generation)}

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
        return self._body("text_completion", "cmpl", [choice])


def _usage(generation: Generation) -> dict[str, Any]:
    prompt, output = generation.prompt_tokens, generation.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": generation.cached_tokens},
    }
