"""Bodies of OpenAI responses, whole and in chunks."""

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

DONE = b"data: [DONE]\n\n"


def event(body: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def usage(generation: Generation) -> dict[str, Any]:
    prompt, output = generation.prompt_tokens, generation.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": generation.cached_tokens},
    }


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


class Format(Protocol):
    """How one endpoint writes its answers."""

    def opening(self) -> list[dict[str, Any]]:
        """Chunks before the first text."""

    def chunk(self, text: str, finish_reason: str | None) -> dict[str, Any]: ...

    def usage_chunk(self, generation: Generation) -> dict[str, Any]: ...

    def whole(self, text: str, finish_reason: str, generation: Generation) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class _Base:
    model: str
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


class ChatFormat(_Base):
    def opening(self) -> list[dict[str, Any]]:
        return [self._chunk({"role": "assistant", "content": ""}, None)]

    def chunk(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        return self._chunk({"content": text} if text else {}, finish_reason)

    def usage_chunk(self, generation: Generation) -> dict[str, Any]:
        body = self._body("chat.completion.chunk", "chatcmpl", [])
        return {**body, "usage": usage(generation)}

    def whole(self, text: str, finish_reason: str, generation: Generation) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        body = self._body("chat.completion", "chatcmpl", [choice])
        return {**body, "usage": usage(generation)}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self._body("chat.completion.chunk", "chatcmpl", [choice])


class CompletionFormat(_Base):
    def opening(self) -> list[dict[str, Any]]:
        return []

    def chunk(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
        return self._body("text_completion", "cmpl", [choice])

    def usage_chunk(self, generation: Generation) -> dict[str, Any]:
        return {**self._body("text_completion", "cmpl", []), "usage": usage(generation)}

    def whole(self, text: str, finish_reason: str, generation: Generation) -> dict[str, Any]:
        return {**self.chunk(text, finish_reason), "usage": usage(generation)}
