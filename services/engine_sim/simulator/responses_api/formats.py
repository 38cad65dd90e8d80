"""Bodies and events of `/v1/responses`: those that vLLM 0.32 sends, with its fields."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.generation import Generation
from simulator.openai.formats import call_id, event

_Json = dict[str, Any]


@dataclass(slots=True)
class ResponseFormat:
    """With a `tool` the text is the arguments of its call. `body` is the request, which an answer
    repeats in part."""

    model: str
    body: Mapping[str, Any]
    tool: str | None = field(kw_only=True)
    _id: str = field(default_factory=lambda: f"resp_{uuid.uuid4().hex}")
    _item_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _call_id: str = field(default_factory=call_id)
    _created: int = field(default_factory=lambda: int(time.time()))
    _number: int = 0  # of the next event
    _text: str = ""
    _finish_reason: str = ""

    def opening(self, generation: Generation) -> bytes:
        begun = self._response("in_progress", [], generation)
        events = [
            self._event("response.created", response=begun),
            self._event("response.in_progress", response=begun),
            self._of_output("response.output_item.added", item=self._item("", "in_progress")),
        ]
        if self.tool is None:
            events.append(self._of_text("response.content_part.added", part=self._part("")))
        return b"".join(events)

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        self._text += text
        self._finish_reason = finish_reason or ""
        if not text:
            return b""
        if self.tool is None:
            return self._of_text("response.output_text.delta", delta=text, logprobs=[])
        return self._of_item("response.function_call_arguments.delta", delta=text)

    def closing(self, generation: Generation) -> bytes:
        text = self._text
        if self.tool is None:
            done = self._of_text("response.output_text.done", text=text, logprobs=[])
            done += self._of_text("response.content_part.done", part=self._part(text))
        else:
            done = self._of_item(
                "response.function_call_arguments.done", arguments=text, name=self.tool
            )
        whole = self.whole(text, self._finish_reason, generation)
        return b"".join(
            [
                done,
                self._of_output("response.output_item.done", item=self._item(text, "completed")),
                self._event("response.completed", response=whole),
            ]
        )

    def whole(self, text: str, finish_reason: str, generation: Generation) -> _Json:
        status = "incomplete" if finish_reason == "length" else "completed"
        response = self._response(status, [self._item(text, "completed")], generation)
        return {**response, "usage": _usage(generation)}

    def _response(self, status: str, output: list[_Json], generation: Generation) -> _Json:
        repeated = ("instructions", "metadata", "reasoning", "text", "user", "max_tool_calls")
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "incomplete_details": (
                {"reason": "max_output_tokens"} if status == "incomplete" else None
            ),
            "model": self.model,
            "output": output,
            "usage": None,
            "background": False,
            "max_output_tokens": generation.max_tokens,
            "parallel_tool_calls": self.body.get("parallel_tool_calls") is not False,
            "previous_response_id": None,
            "prompt": None,
            "service_tier": "auto",
            "temperature": _number(self.body, "temperature"),
            "tool_choice": self.body.get("tool_choice") or ("auto" if self._tools else "none"),
            "tools": self._tools,
            "top_logprobs": None,
            "top_p": _number(self.body, "top_p"),
            "truncation": self.body.get("truncation") or "disabled",
            **{name: self.body.get(name) for name in repeated},
        }

    @property
    def _tools(self) -> list[_Json]:
        """As they were given; of functions, with what the API's own answers have."""
        defaults = {"strict": None, "parameters": None}
        given = self.body.get("tools") or []
        return [{**defaults, **tool} if tool["type"] == "function" else tool for tool in given]

    def _item(self, text: str, status: str) -> _Json:
        if self.tool is not None:
            return {
                "id": f"fc_{self._item_id}",
                "type": "function_call",
                "call_id": self._call_id,
                "name": self.tool,
                "arguments": text,
                "status": status,
            }
        return {
            "id": f"msg_{self._item_id}",
            "type": "message",
            "role": "assistant",
            "content": [self._part(text)] if text else [],
            "status": status,
        }

    def _part(self, text: str) -> _Json:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": None}

    def _of_text(self, kind: str, **fields: Any) -> bytes:
        return self._of_item(kind, content_index=0, **fields)

    def _of_item(self, kind: str, **fields: Any) -> bytes:
        prefix = "msg" if self.tool is None else "fc"
        return self._of_output(kind, item_id=f"{prefix}_{self._item_id}", **fields)

    def _of_output(self, kind: str, **fields: Any) -> bytes:
        return self._event(kind, output_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        body = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event(body, kind)


def _number(body: Mapping[str, Any], name: str) -> Any:
    value = body.get(name)
    return 1.0 if value is None else value


def _usage(generation: Generation) -> _Json:
    prompt, output = generation.prompt_tokens, generation.output_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": generation.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + output,
    }
