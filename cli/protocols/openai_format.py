"""Bodies of OpenAI's API: requests, events of a stream, errors."""

from __future__ import annotations

import json
from typing import Any

from cli.protocols.answer import Piece

DATA = "data:"
DONE = "[DONE]"


def chat_request(model: str, prompt: str, system: str | None, max_tokens: int) -> dict[str, Any]:
    """A streamed chat at temperature 0, for POST /v1/chat/completions."""
    instructions = [{"role": "system", "content": system}] if system else []
    messages = [*instructions, {"role": "user", "content": prompt}]
    return {"messages": messages, **_streamed(model, max_tokens)}


def completion_request(model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    """A streamed continuation at temperature 0, for POST /v1/completions: no chat template is
    applied to the prompt."""
    return {"prompt": prompt, **_streamed(model, max_tokens)}


def piece_of(event: dict[str, Any]) -> Piece:
    """What an event of a stream brings: text, or the engine's count of the answer's tokens."""
    usage = event.get("usage") or {}
    (choice, *_) = event.get("choices") or [{}]
    delta = choice.get("delta") or {}
    # With a reasoning parser an answer begins with its reasoning, and may be nothing else. vLLM
    # calls it `reasoning`, in older versions `reasoning_content`, in some both.
    reasoning = delta.get("reasoning") or delta.get("reasoning_content") or ""
    text = reasoning + (delta.get("content") or choice.get("text") or "")
    return Piece(text=text, tokens=usage.get("completion_tokens"))


def refusal(body: str) -> str:
    """What the body of an HTTP error says."""
    try:
        return message_of(json.loads(body))
    except ValueError:
        return body.strip()[:200]


def message_of(document: Any) -> str:
    """The text of an OpenAI error object, whichever of its forms it has."""
    error = document.get("error", document) if isinstance(document, dict) else document
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def _streamed(model: str, max_tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
