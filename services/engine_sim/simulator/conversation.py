"""A conversation as the model sees it, and what the model makes of it: text, a call, a document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.structured import value_for
from simulator.text import Answer, document

_INSTRUCTING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Turn:
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the client offers, with the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any]

    def arguments(self) -> Answer:
        """Of a call: always the same, valid under the schema. Raises SchemaError."""
        return document(json.dumps(value_for(self.schema)))


def formed(schema: object) -> Answer:
    """An answer that is a document, valid under the schema. Raises SchemaError."""
    return document(json.dumps(value_for(schema)))


def rendered(turns: Sequence[Turn], tools: Sequence[Tool] = ()) -> str:
    """The chat template: the tools, `<|role|>` and the text of each turn, `<|assistant|>`."""
    offered = "".join(f"{tool.name} {json.dumps(tool.schema)}\n" for tool in tools)
    head = [f"<|tools|>\n{offered}"] if tools else []
    return "".join([*head, *(f"<|{t.role}|>\n{t.text}\n" for t in turns), "<|assistant|>\n"])


def asked_for(turns: Sequence[Turn], tools: Sequence[Tool]) -> Tool | None:
    """The tool whose name the last turn contains, if it is the user's: which tool a model calls
    that may choose. Instructions may follow it, such as the reminders of Claude Code."""
    last = next((turn for turn in reversed(turns) if turn.role not in _INSTRUCTING), None)
    if last is None or last.role != "user":
        return None
    words = set(re.findall(r"[\w-]+", last.text))
    return next((tool for tool in tools if tool.name in words), None)
