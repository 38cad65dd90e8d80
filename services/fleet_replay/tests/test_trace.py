"""Trace files: what is read, what is refused, and the two generated kinds."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fleet.content import sequences
from fleet.generators import GENERATORS
from fleet.trace import Request, read_trace
from hypothesis import given
from hypothesis import strategies as st

SERVICE = Path(__file__).parent.parent
LINES = json.loads((SERVICE.parents[1] / "schemas/trace.lines.json").read_text("utf-8"))
GOOD = {"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]}


def line(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def test_a_request_is_read_and_time_begins_with_the_first() -> None:
    trace = read_trace([line(timestamp=3000), "\n", line(), line(timestamp=1500, hash_ids=[])])
    assert trace.broken == ()
    assert [request.arrived_ms for request in trace.requests] == [0, 500, 2000]
    assert trace.requests[0] == Request(
        arrived_ms=0, input_tokens=600, output_tokens=5, hash_ids=(7, 8)
    )


def test_seconds_are_read_as_seconds_and_sessions_as_text() -> None:
    trace = read_trace([line(), line(timestamp=1001.5, session=3, hash_ids=[])], unit="s")
    assert trace.requests[1].arrived_ms == 1500
    assert trace.requests[1].session == "3"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (line(timestamp="1"), "timestamp: '1' must be a number"),
        (line(timestamp=float("nan")), "timestamp: nan must be finite"),
        (line(input_length=0), "input_length: 0 must be an integer from 1 to"),
        (line(output_length=1.5), "output_length: 1.5 must be an integer from 1 to"),
        (line(hash_ids=[1]), "hash_ids: 1 ids for 600 prompt tokens"),
        (line(hash_ids=["a", "b"]), "hash_ids: must be a list of integers"),
        (line(session=True), "session: True must be text or an integer"),
    ],
)
def test_a_broken_line_is_named_with_its_reason(text: str, reason: str) -> None:
    trace = read_trace([line(), text, line()])
    (broken,) = trace.broken
    assert broken.line == 2
    assert broken.reason.startswith(reason)
    assert len(trace.requests) == 2


@pytest.mark.parametrize("text", LINES["requests"])
def test_what_the_format_calls_a_request_is_read(text: str) -> None:
    assert read_trace([text]).broken == ()


@pytest.mark.parametrize("text", LINES["broken"], ids=lambda text: text[:60])
def test_what_the_format_calls_broken_is_refused(text: str) -> None:
    assert read_trace([text]).requests == ()


@given(st.lists(st.text(max_size=40) | st.just(line()), max_size=10))
def test_every_line_is_a_request_or_broken_or_empty(lines: list[str]) -> None:
    trace = read_trace(lines)
    empty = sum(not each.strip() for each in lines)
    assert len(trace.requests) + len(trace.broken) + empty == len(lines)


def hashes(requests: list[Request], blocks: int = 8) -> list[list[int]]:
    return [list(each.block_hashes(blocks, 256)) for each in sequences(requests, 256)]


def test_equal_ids_are_equal_blocks_and_the_rest_is_each_ones_own() -> None:
    first = Request(arrived_ms=0, input_tokens=1500, output_tokens=900, hash_ids=(1, 2, 3))
    other = Request(arrived_ms=0, input_tokens=1500, output_tokens=900, hash_ids=(1, 2, 4))
    one, two = hashes([first, other])
    assert one[:4] == two[:4]
    assert not set(one[4:]) & set(two[4:])
    same, again = hashes([first, first])
    assert same[:5] == again[:5]  # 1,500 tokens are five whole blocks
    assert not set(same[5:]) & set(again[5:])


def test_a_session_continues_its_conversation_and_a_shorter_prompt_starts_anew() -> None:
    turns = [
        Request(arrived_ms=0, input_tokens=prompt, output_tokens=200, session="a")
        for prompt in (600, 900, 500)
    ]
    stranger = Request(arrived_ms=0, input_tokens=600, output_tokens=200, session="b")
    first, second, third, other = hashes([*turns, stranger])
    assert first == second
    assert not set(first) & set(third)
    assert not set(first) & set(other)


def test_blocks_that_do_not_divide_an_id_are_refused() -> None:
    with pytest.raises(ValueError, match="do not divide 512"):
        next(sequences([Request(arrived_ms=0, input_tokens=1, output_tokens=1)], 24))


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_generated_trace_is_readable_and_the_same_for_the_same_seed(kind: str) -> None:
    made = [list(GENERATORS[kind](requests=500, duration_s=60, seed=s)) for s in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    trace = read_trace(map(json.dumps, made[0]))
    assert trace.broken == ()
    assert len(trace.requests) == 500
    assert 40_000 < trace.duration_ms < 90_000


def test_the_mooncake_like_trace_has_the_published_shape() -> None:
    trace = read_trace(
        map(json.dumps, GENERATORS["mooncake"](requests=8000, duration_s=1200, seed=7))
    )
    seen: set[int] = set()
    known = 0
    for request in trace.requests:
        known += sum(each in seen for each in request.hash_ids)
        seen.update(request.hash_ids)
    blocks = sum(len(request.hash_ids) for request in trace.requests)
    assert statistics.mean(r.input_tokens for r in trace.requests) == pytest.approx(8596, rel=0.1)
    assert statistics.mean(r.output_tokens for r in trace.requests) == pytest.approx(182, rel=0.1)
    assert known / blocks == pytest.approx(0.59, abs=0.05)


def test_the_burstgpt_like_trace_comes_in_bursts_and_conversations() -> None:
    trace = read_trace(
        map(json.dumps, GENERATORS["burstgpt"](requests=8000, duration_s=1200, seed=7))
    )
    arrivals = [request.arrived_ms for request in trace.requests]
    gaps = [after - before for before, after in itertools.pairwise(arrivals)]
    assert statistics.stdev(gaps) / statistics.mean(gaps) > 1.5  # 1 would be Poisson
    turns = len(trace.requests) - len({request.session for request in trace.requests})
    assert 0.2 < turns / len(trace.requests) < 0.4


def test_the_program_writes_lines() -> None:
    finished = subprocess.run(
        [sys.executable, SERVICE / "make_trace.py", "burstgpt", "--requests", "20"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(read_trace(finished.stdout.splitlines()).requests) == 20
