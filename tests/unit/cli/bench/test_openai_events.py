"""Reading a recorded answer of OpenAI's API."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.bench.openai_events import Received, outcome_of
from cli.bench.outcome import CUT, IN_STREAM, NO_TEXT, Answered, Failed, Outcome

SENT_S, ENDED_S = 100.0, 200.0


def event(document: dict[str, Any] | str) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    return f"data: {text}\n\n".encode()


def chat(text: str | None, **others: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text, **others}}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}
ANSWER = [
    event(chat("", role="assistant")),
    event(chat("Zürich ")),
    b": a comment\n\n",
    event({"choices": [{"index": 0, "text": "lies "}]}),  # of /v1/completions
    event(chat("there.")),
    event(chat(None)),
    event(USAGE),
    event("[DONE]"),
]


def read(*parts: tuple[float, bytes], status: int = 200, error: str = "") -> Outcome:
    received = Received(status=status, parts=list(parts), error=error)
    return outcome_of(received, sent_s=SENT_S, ended_s=ENDED_S)


def test_the_first_and_the_last_text_tell_the_times_and_the_engine_the_tokens() -> None:
    outcome = read(*((101.0 + place, part) for place, part in enumerate(ANSWER)))
    assert outcome == Answered(
        sent_s=SENT_S, first_s=102.0, last_s=105.0, output_tokens=7, input_tokens=5
    )


def test_without_a_count_each_piece_is_a_token() -> None:
    outcome = read((101.0, event(chat("a"))), (102.0, event(chat("b")) + event("[DONE]")))
    assert outcome == Answered(sent_s=SENT_S, first_s=101.0, last_s=102.0, output_tokens=2)


@given(st.lists(st.integers(0, sum(map(len, ANSWER))), max_size=30))
def test_wherever_the_stream_is_divided_the_same_was_said(cuts: list[int]) -> None:
    whole = b"".join(ANSWER)
    ends = [0, *sorted(cuts), len(whole)]
    parts = [(101.0 + place, whole[begin:end]) for place, (begin, end) in enumerate(pairwise(ends))]
    outcome = read(*parts)
    assert isinstance(outcome, Answered)
    assert (outcome.output_tokens, outcome.input_tokens) == (7, 5)
    # A text is there when the end of its line is: with the part that has that byte.
    first_end = len(ANSWER[0]) + ANSWER[1].index(b"\n") + 1
    assert outcome.first_s == next(
        101.0 + place for place, end in enumerate(ends[1:]) if end >= first_end
    )


@pytest.mark.parametrize(
    ("outcome", "kind", "said"),
    [
        (read((1.0, b'{"error": {"message": "no model x"}}'), status=404), "HTTP 404", "no model"),
        (read((1.0, b"no healthy upstream"), status=503), "HTTP 503", "no healthy upstream"),
        (read(*[(1.0, part) for part in ANSWER[:-1]]), CUT, "without [DONE]"),
        (read(*[(1.0, p) for p in ANSWER[:-1]], error="reset by peer"), CUT, "reset by peer"),
        (read(status=0, error="the connection was closed"), CUT, "closed"),
        (
            read((1.0, event(chat("a"))), (2.0, event({"error": {"message": "no memory"}}))),
            IN_STREAM,
            "no memory",
        ),
        (read((1.0, event("{not json"))), IN_STREAM, "an invalid event"),
        (read((1.0, event("5"))), IN_STREAM, "an invalid event: '5'"),
        (read((1.0, event({"choices": 5}) + event("[DONE]"))), IN_STREAM, "is not one of OpenAI's"),
        (read((1.0, event(chat(None)) + event("[DONE]"))), NO_TEXT, "without any text"),
    ],
)
def test_an_error_has_a_kind_and_what_was_said(outcome: Outcome, kind: str, said: str) -> None:
    assert isinstance(outcome, Failed)
    assert outcome.kind == kind
    assert said in outcome.said
    assert (outcome.sent_s, outcome.ended_s) == (SENT_S, ENDED_S)


def test_an_error_that_is_null_is_none() -> None:
    outcome = read((1.0, event(chat("a") | {"error": None}) + event("[DONE]")))
    assert isinstance(outcome, Answered)


def test_an_answer_may_be_nothing_but_calls_of_tools() -> None:
    call = chat(None, tool_calls=[{"index": 0, "function": {"arguments": "{"}}])
    outcome = read((1.0, event(chat(None))), (2.0, event(call)), (3.0, event(USAGE) + ANSWER[-1]))
    assert isinstance(outcome, Answered)
    assert (outcome.first_s, outcome.output_tokens) == (2.0, 7)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
EVENT_KEYS = ("choices", "usage", "delta", "text", "content", "tool_calls", "completion_tokens")


@given(st.lists(JSON | st.dictionaries(st.sampled_from(EVENT_KEYS), JSON), max_size=3))
def test_whatever_a_server_sends_is_an_answer_or_a_failure(sent: list[Any]) -> None:
    parts = [(1.0, event(json.dumps(each))) for each in sent]
    assert isinstance(read(*parts, (2.0, event("[DONE]"))), Answered | Failed)
