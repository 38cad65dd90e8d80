"""Tokens as they arrive, many streams at once, cancellation, text, errors."""

from __future__ import annotations

import asyncio
import urllib.request
from contextlib import ExitStack
from typing import Any

import pytest
from hang import HANG_S
from pings import answered_pings
from replica.endpoints import sum_in_flight
from replica_process import (
    ALIAS,
    GRPC_PORT,
    METRICS_PORT,
    OPENAI_PORT,
    ReplicaProcess,
    wait_until,
)
from triton_stream import Answer, TritonStream, sampling


def in_flight(replica: ReplicaProcess, port: int) -> float:
    url = f"http://{replica.address}:{port}/metrics"
    with urllib.request.urlopen(url, timeout=HANG_S) as page:
        return sum_in_flight(page.read().decode())


def test_a_token_arrives_before_the_next_one_is_made(
    replica: ReplicaProcess, stream: TritonStream
) -> None:
    stream.send("hold b", stream=True, sampling_parameters=sampling(max_tokens=10))
    answer = Answer()
    stream.receive(answer)
    assert answer.text == " hold"
    replica.release()
    while stream.receive(answer):
        pass
    assert answer.text == " hold b" * 5
    assert answer.final_flags == [False] * 9 + [True]


def test_the_alias_answers_like_the_model(stream: TritonStream) -> None:
    answer = stream.ask("a", model=ALIAS, stream=True, sampling_parameters=sampling(max_tokens=1))
    assert answer.text == " a"


def test_many_streams_share_one_stub_without_waiting_for_each_other(
    replica: ReplicaProcess,
) -> None:
    """All have begun before any may end."""
    with ExitStack() as opened:
        url = f"{replica.address}:{GRPC_PORT}"
        streams = [opened.enter_context(TritonStream(url)) for _ in range(24)]
        answers = [Answer() for _ in streams]
        for number, stream in enumerate(streams):
            prompt = f"hold{number}"
            stream.send(prompt, stream=True, sampling_parameters=sampling(max_tokens=20))
        for number, (stream, answer) in enumerate(zip(streams, answers, strict=True)):
            stream.receive(answer)
            assert answer.text == f" hold{number}"
        replica.release(len(streams))
        for number, (stream, answer) in enumerate(zip(streams, answers, strict=True)):
            while stream.receive(answer):
                pass
            assert answer.text == f" hold{number}" * 20


def test_a_cancelled_stream_leaves_the_engine(
    replica: ReplicaProcess, stream: TritonStream
) -> None:
    stream.send("hold", stream=True, sampling_parameters=sampling(max_tokens=20))
    stream.receive(Answer())
    assert in_flight(replica, OPENAI_PORT) == 1
    assert in_flight(replica, METRICS_PORT) == 1
    stream.client.stop_stream(cancel_requests=True)
    wait_until(lambda: in_flight(replica, OPENAI_PORT) == 0)
    wait_until(lambda: in_flight(replica, METRICS_PORT) == 0)


def test_a_cancelled_whole_answer_leaves_the_engine_too(
    replica: ReplicaProcess, stream: TritonStream
) -> None:
    stream.send("hold", sampling_parameters=sampling(max_tokens=20))
    wait_until(lambda: in_flight(replica, OPENAI_PORT) == 1)
    stream.client.stop_stream(cancel_requests=True)
    wait_until(lambda: in_flight(replica, OPENAI_PORT) == 0)


@pytest.mark.parametrize("streamed", [True, False])
def test_text_of_any_script_survives_both_ways(stream: TritonStream, streamed: bool) -> None:
    text = "é 漢字 🚀 Ω שלום"
    answer = stream.ask(
        text,
        stream=streamed,
        exclude_input_in_output=True,
        sampling_parameters=sampling(max_tokens=5),
    )
    assert answer.text == f" {text}"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"sampling_parameters": sampling(max_tokens=-3)}, "max_tokens must be at least 1, got -3"),
        ({"sampling_parameters": sampling(warmth=1)}, "sampling_parameters: unknown warmth"),
        ({"sampling_parameters": "{"}, "sampling_parameters: not JSON"),
        ({"sampling_parameters": "[" * 100_000}, "sampling_parameters: not JSON"),
        ({"sampling_parameters": sampling(n=129)}, "n must be a whole number from 1 to 128"),
        ({"sampling_parameters": sampling(n=0)}, "n must be a whole number from 1 to 128"),
        ({"sampling_parameters": sampling(n="2")}, "n must be a whole number from 1 to 128"),
        ({"image": "aGVsbG8="}, "image: this model takes text only"),
        ({"embedding_request": "{}"}, "not embeddings"),
        ({"stream": True, "exclude_input_in_output": False}, "cannot be combined with stream"),
    ],
)
def test_a_wrong_request_is_refused_in_band_with_the_reason(
    stream: TritonStream, tensors: dict[str, Any], message: str
) -> None:
    answer = stream.ask("a", **tensors)
    assert answer.responses == []
    assert answer.error is not None
    assert message in answer.error
    assert stream.ask("still here", exclude_input_in_output=True).error is None


def test_text_that_is_not_utf8_is_refused(stream: TritonStream) -> None:
    answer = stream.ask("a", sampling_parameters=b"\xff\xfe")
    assert answer.error is not None
    assert "sampling_parameters: not UTF-8" in answer.error


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("fail mid-stream", "out of blocks"),
        ("break off mid-stream", "ended the stream before it was complete"),
    ],
)
def test_an_error_after_the_first_tokens_comes_after_them(
    stream: TritonStream, prompt: str, message: str
) -> None:
    answer = stream.ask(prompt, stream=True)
    assert len(answer.responses) == 2
    assert answer.error is not None
    assert message in answer.error


def test_requests_that_begin_while_others_end_are_all_answered(stream: TritonStream) -> None:
    """Two threads count them in Triton's metric, where a race used to end the whole server."""
    requests, at_once = 1000, 100  # fewer than connections that wait to be accepted

    def begin(number: int) -> None:
        stream.send(f"w{number}", sampling_parameters=sampling(max_tokens=1))

    for number in range(at_once):
        begin(number)
    for number in range(at_once, requests + at_once):
        answer = Answer()
        while stream.receive(answer):
            pass
        assert answer.error is None
        if number < requests:
            begin(number)


def test_a_quiet_connection_is_kept_however_often_envoy_pings_it(
    replica: ReplicaProcess,
) -> None:
    assert asyncio.run(answered_pings(replica.address, GRPC_PORT, 20)) == 20
