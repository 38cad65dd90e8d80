"""Bodies and events of `/v1/messages`."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from simulator.generation import Generation
from simulator.openai.formats import call_id, event

_Json = dict[str, Any]


@dataclass(slots=True)
class MessageFormat:
    """With a `tool` the text is the input of its use."""

    model: str
    tool: str | None = field(kw_only=True)
    _id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")  # vLLM's are so, too
    _tool_id: str = field(default_factory=call_id)
    _finish_reason: str = ""

    def opening(self, generation: Generation) -> bytes:
        usage = {"input_tokens": generation.prompt_tokens, "output_tokens": 0}
        begun = {**self._message([], None, None), "usage": usage}
        return _event("message_start", message=begun) + _event(
            "content_block_start", index=0, content_block=self._block("", {})
        )

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        self._finish_reason = finish_reason or ""
        if not text:
            return b""
        if self.tool is None:
            delta = {"type": "text_delta", "text": text}
        else:
            delta = {"type": "input_json_delta", "partial_json": text}
        return _event("content_block_delta", index=0, delta=delta)

    def closing(self, generation: Generation) -> bytes:
        reason, sequence = self._ending(self._finish_reason, generation)
        ended = {"stop_reason": reason, "stop_sequence": sequence}
        return b"".join(
            [
                _event("content_block_stop", index=0),
                _event("message_delta", delta=ended, usage=_usage(generation)),
                _event("message_stop"),
            ]
        )

    def whole(self, text: str, finish_reason: str, generation: Generation) -> _Json:
        reason, sequence = self._ending(finish_reason, generation)
        block: _Json = {"type": "text", "text": text}
        if self.tool and reason == "tool_use":
            block = self._block("", json.loads(text))
        return {**self._message([block], reason, sequence), "usage": _usage(generation)}

    def _block(self, text: str, given: Any) -> _Json:
        if self.tool is None:
            return {"type": "text", "text": text}
        return {"type": "tool_use", "id": self._tool_id, "name": self.tool, "input": given}

    def _ending(self, finish_reason: str, generation: Generation) -> tuple[str, str | None]:
        """`stop_reason` and `stop_sequence`."""
        if finish_reason == "length":
            return "max_tokens", None
        if generation.stop_string is not None:
            return "stop_sequence", generation.stop_string
        return ("tool_use" if self.tool else "end_turn"), None

    def _message(self, content: list[_Json], reason: str | None, sequence: str | None) -> _Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self.model,
            "stop_reason": reason,
            "stop_sequence": sequence,
        }


def _usage(generation: Generation) -> _Json:
    """The API counts tokens from the cache apart from the rest of the prompt."""
    return {
        "input_tokens": generation.prompt_tokens - generation.cached_tokens,
        "cache_read_input_tokens": generation.cached_tokens,
        "output_tokens": generation.output_tokens,
    }


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)
