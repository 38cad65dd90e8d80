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
        if "error" in event:
            return failed(IN_STREAM, message_of(event))
    if not done:
        return failed(CUT, f"the stream ended without {DONE}")
    pieces = [(at_s, piece_of(event)) for at_s, event in events]
    moments = [at_s for at_s, piece in pieces if piece.text]
    if not moments:
        return failed(NO_TEXT, "the stream ended without any text")
    counts = [piece.tokens for _, piece in pieces if piece.tokens is not None]
    prompts = [event["usage"].get("prompt_tokens") for _, event in events if event.get("usage")]
    return Answered(
        sent_s=sent_s,
        first_s=moments[0],
        last_s=moments[-1],
        output_tokens=counts[-1] if counts else len(moments),
        input_tokens=prompts[-1] if prompts else None,
    )


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
            events.append((at_s, json.loads(data)))
        except ValueError:
            return [(at_s, {"error": f"an invalid event: {data[:80]!r}"})], False
    return events, False


def _lines(parts: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, str]]:
    rest = b""
    for at_s, part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield at_s, line.decode(errors="replace")


def _text(parts: Sequence[tuple[float, bytes]]) -> str:
    return b"".join(part for _, part in parts).decode(errors="replace")
