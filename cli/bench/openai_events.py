"""Reads a recorded HTTP answer of OpenAI's API: what came, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.bench.outcome import CUT, IN_STREAM, NO_TEXT, Answered, Failed, Outcome
from cli.protocols.openai_format import DATA, DONE, message_of, piece_of, refusal

OK = 200


@dataclass(slots=True, kw_only=True)
class Received:
    """An answer as it came from the socket: the moment of each part of its body. `status` is 0
    without a status line, `error` says why it is incomplete."""

    status: int = 0
    parts: list[tuple[float, bytes]] = field(default_factory=list)
    error: str = ""


def outcome_of(received: Received, *, sent_s: float, ended_s: float) -> Outcome:
    def failed(kind: str, said: str) -> Failed:
        return Failed(sent_s=sent_s, ended_s=ended_s, kind=kind, said=said)

    if received.status and received.status != OK:
        return failed(f"HTTP {received.status}", refusal(_text(received.parts)))
    if received.error:
        return failed(CUT, received.error)
    events, done = _events(received.parts)
    for _, event in events:
        if event.get("error") is not None:
            return failed(IN_STREAM, message_of(event))
    if not done:
        return failed(CUT, f"the stream ended without {DONE}")
    try:
        return _answered(events, sent_s) or failed(NO_TEXT, "the stream ended without any text")
    except (AttributeError, TypeError, ValueError, OverflowError):
        return failed(IN_STREAM, "an event is not one of OpenAI's API")


def _answered(events: Sequence[tuple[float, dict[str, Any]]], sent_s: float) -> Answered | None:
    moments = [at_s for at_s, event in events if piece_of(event).text or _calls_tools(event)]
    input_tokens, output_tokens = (
        _count(events, key) for key in ("prompt_tokens", "completion_tokens")
    )
    if not moments:
        return None
    return Answered(
        sent_s=sent_s,
        first_s=moments[0],
        last_s=moments[-1],
        output_tokens=len(moments) if output_tokens is None else output_tokens,
        input_tokens=input_tokens,
    )


def _calls_tools(event: dict[str, Any]) -> bool:
    """Whether the model has written a part of a call, of which an answer may wholly consist."""
    return any(
        (choice.get("delta") or {}).get("tool_calls") for choice in event.get("choices") or ()
    )


def _count(events: Sequence[tuple[float, dict[str, Any]]], key: str) -> int | None:
    """The engine's last count of tokens."""
    counts = [usage.get(key) for _, event in events if (usage := event.get("usage"))]
    known = [int(count) for count in counts if count is not None]
    return known[-1] if known else None


def _events(
    parts: Sequence[tuple[float, bytes]],
) -> tuple[list[tuple[float, dict[str, Any]]], bool]:
    """Each event with the moment when its line was complete, and whether the stream was."""
    events = list[tuple[float, dict[str, Any]]]()
    for at_s, line in _lines(parts):
        if not line.startswith(DATA):
            continue
        data = line.removeprefix(DATA).strip()
        if data == DONE:
            return events, True
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            return [(at_s, {"error": f"an invalid event: {data[:80]!r}"})], False
        events.append((at_s, event))
    return events, False


def _lines(parts: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, str]]:
    rest = b""
    for at_s, part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield at_s, line.decode(errors="replace")


def _text(parts: Sequence[tuple[float, bytes]]) -> str:
    return b"".join(part for _, part in parts).decode(errors="replace")
