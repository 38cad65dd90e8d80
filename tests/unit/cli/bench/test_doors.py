"""Clients of both protocols against small servers: what they send, and each kind of error."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from simulated_clock import now_s, simulated

from cli.bench.openai_door import CHAT, COMPLETIONS, OpenAiDoor
from cli.bench.outcome import CUT, IN_STREAM, TIMEOUT, Answered, Door, Failed, Outcome
from cli.bench.triton_door import TritonDoor
from cli.bench.workload import Prompt
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.protocols.test_protocols import ANSWER, GRPC_ADDRESS, Triton, with_triton
from tests.waiting import HANG_S

ASKED = Prompt(text="hello", max_tokens=8, system="be brief")
CONTINUED = Prompt(text="once upon", max_tokens=5, chat=False, whole_length=True)
INPUT_S = 0.0005  # for loopback


def openai(gateway: str) -> OpenAiDoor:
    return OpenAiDoor(gateway=gateway, model="smollm2", timeout_s=HANG_S, now_s=time.monotonic)


def triton() -> TritonDoor:
    return TritonDoor(gateway=GRPC_ADDRESS, model="smollm2", timeout_s=HANG_S, now_s=time.monotonic)


async def asked(door: Door, *prompts: Prompt) -> list[Outcome]:
    """By one client, one after the other."""
    try:
        async with door.client() as ask:
            return [await ask(prompt) for prompt in prompts]
    finally:
        await door.close()


def failed(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, Failed)
    return outcome.kind, outcome.said


async def test_a_chat_and_a_continuation_are_what_is_asked(serve: Serve) -> None:
    server = serve({f"POST {CHAT}": (200, ANSWER), f"POST {COMPLETIONS}": (200, ANSWER)})
    outcomes = await asked(openai(server.address), ASKED, CONTINUED)
    assert [isinstance(each, Answered) and each.output_tokens for each in outcomes] == [7, 7]
    assert server.asked == [f"POST {CHAT}", f"POST {COMPLETIONS}"]
    chat, continued = (json.loads(body) for body in server.bodies)
    streamed = {
        "model": "smollm2",
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert chat == streamed | {
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ],
        "max_tokens": 8,
    }
    assert continued == streamed | {"prompt": "once upon", "max_tokens": 5, "ignore_eos": True}


@asynccontextmanager
async def scripted(
    answers: Sequence[bytes], *, then: Callable[[asyncio.StreamWriter], Any]
) -> AsyncIterator[tuple[str, list[int]]]:
    """A server's URL, and how many requests each of its connections has had. It answers the bytes
    in their order, and does `then` after each."""
    waiting, connections = iter(answers), list[int]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        place = len(connections) - 1
        while head := await reader.readuntil(b"\r\n\r\n"):
            (length,) = (
                int(line.partition(b":")[2])
                for line in head.splitlines()
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            connections[place] += 1
            writer.write(next(waiting))
            await writer.drain()
            then(writer)

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, StopIteration):
            writer.close()

    server = await asyncio.start_server(quietly, f"{NETWORK}.4", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", connections


WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    + b"%x\r\n" % len(ANSWER)
    + ANSWER
    + b"\r\n0\r\n\r\n"
)
CUT_OFF = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndata\r\n"


async def test_a_client_keeps_its_connection() -> None:
    async with scripted([WHOLE, CHUNKED, WHOLE], then=lambda _writer: None) as (url, connections):
        outcomes = await asked(openai(url), ASKED, ASKED, ASKED)
    assert [type(each) for each in outcomes] == [Answered] * 3
    assert connections == [3]


async def test_a_stream_that_is_cut_is_one_error_and_the_client_connects_again() -> None:
    answers = [CUT_OFF, b"", WHOLE]
    ends = iter([True, True, False])

    def then(writer: asyncio.StreamWriter) -> None:
        if next(ends):
            writer.close()

    async with scripted(answers, then=then) as (url, connections):
        first, second, third = await asked(openai(url), ASKED, ASKED, ASKED)
    assert failed(first)[0] == failed(second)[0] == CUT
    assert isinstance(third, Answered)
    assert connections == [1, 1, 1]


def test_a_request_without_an_end_fails_and_the_next_has_a_connection_of_its_own() -> None:
    """On a simulated clock, on which waiting takes no time."""

    async def ask() -> tuple[list[Outcome], list[int]]:
        async with scripted([CUT_OFF, WHOLE], then=lambda _writer: None) as (url, connections):
            door = OpenAiDoor(gateway=url, model="smollm2", timeout_s=60, now_s=now_s)
            return await asked(door, ASKED, ASKED), connections

    (first, second), connections = simulated(ask(), input_s=INPUT_S)
    assert failed(first) == (TIMEOUT, "no end within 60 s")
    assert isinstance(second, Answered)
    assert connections == [1, 1]


async def test_a_gateway_that_does_not_listen_is_an_error_of_each_request() -> None:
    outcomes = await asked(openai(f"http://{NETWORK}.9:8080"), ASKED, ASKED)
    assert [failed(each)[0] for each in outcomes] == ["connection refused"] * 2


async def test_an_answer_of_triton_is_counted_by_pieces_where_it_has_no_count() -> None:
    servicer = Triton(["Par", "is."])
    (outcome,) = await with_triton(servicer, lambda: asked(triton(), CONTINUED))
    assert isinstance(outcome, Answered)
    assert outcome.sent_s <= outcome.first_s <= outcome.last_s
    assert (outcome.output_tokens, outcome.input_tokens) == (2, None)
    (request,) = servicer.requests
    assert [each.name for each in request.inputs][-2:] == [
        "return_num_input_tokens",
        "return_num_output_tokens",
    ]
    assert b"once upon" in request.raw_input_contents[0]
    assert b"<|im_start|>" not in request.raw_input_contents[0]
    assert json.loads(request.raw_input_contents[2][4:]) == {
        "max_tokens": 5,
        "temperature": 0,
        "ignore_eos": True,
    }


async def test_errors_of_triton_have_their_kinds() -> None:
    broken = Triton(["Par"], error="Stub process is not healthy")
    (in_stream,) = await with_triton(broken, lambda: asked(triton(), ASKED))
    assert failed(in_stream) == (IN_STREAM, "Stub process is not healthy")
    (absent,) = await asked(triton(), ASKED)
    assert failed(absent)[0] == "gRPC UNAVAILABLE"
