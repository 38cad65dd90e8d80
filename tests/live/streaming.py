"""Clients of the gateway that record when each piece of a stream arrived."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]

from cli.certificates import trusted
from tests.waiting import HANG_S

# Parameters of a request, unless it has its own.
DEFAULTS = {"max_tokens": 32, "temperature": 0}


@dataclass
class Answer:
    text: str = ""
    arrived_s: list[float] = field(default_factory=list)  # seconds after the request
    error: str | None = None
    finished: bool = False
    started_s: float = field(default_factory=time.monotonic)
    ended_s: float = 0.0


async def openai_stream(http: str, model: str, prompt: str, **parameters: Any) -> Answer:
    answer, started = Answer(), time.monotonic()
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        **DEFAULTS,
        **parameters,
    }
    try:
        async with (
            httpx.AsyncClient(timeout=HANG_S, verify=trusted()) as client,
            client.stream("POST", f"{http}/v1/chat/completions", json=body) as response,
        ):
            if response.status_code != 200:
                answer.error = f"HTTP {response.status_code} {(await response.aread()).decode()}"
                return answer
            async for line in response.aiter_lines():
                if line == "data: [DONE]":
                    answer.finished = True
                elif line.startswith("data: "):
                    _take_chunk(answer, json.loads(line[6:]), started)
    except httpx.HTTPError as error:
        answer.error = repr(error)
    if not answer.finished and answer.error is None:
        answer.error = "the stream ended without [DONE]"
    return answer


def _take_chunk(answer: Answer, chunk: dict[str, Any], started: float) -> None:
    if "error" in chunk:
        answer.error = json.dumps(chunk["error"])
    for choice in chunk.get("choices", []):
        if piece := choice.get("delta", {}).get("content"):
            answer.text += piece
            answer.arrived_s.append(time.monotonic() - started)


async def grpc_stream(grpc: str, model: str, prompt: str, **parameters: Any) -> Answer:
    answer, started = Answer(), time.monotonic()
    client = triton.InferenceServerClient(grpc)

    async def requests() -> AsyncIterator[dict[str, Any]]:
        text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        yield {
            "model_name": model,
            "inputs": [
                _bytes_input("text_input", text),
                _bool_input("stream", True),
                _bytes_input("sampling_parameters", json.dumps(DEFAULTS | parameters)),
                _bool_input("exclude_input_in_output", True),
            ],
            "outputs": [triton.InferRequestedOutput("text_output")],
            "enable_empty_final_response": True,
        }

    try:
        async for result, error in client.stream_infer(requests(), stream_timeout=HANG_S):
            if error is not None:
                answer.error = str(error)
                break
            output = result.as_numpy("text_output")
            if output is not None and output.size:
                answer.text += output.reshape(-1)[0].decode()
                answer.arrived_s.append(time.monotonic() - started)
            if result.get_response().parameters["triton_final_response"].bool_param:
                answer.finished = True
                break
    except Exception as error:
        answer.error = repr(error)
    finally:
        await client.close()
    if not answer.finished and answer.error is None:
        answer.error = "the stream ended without a final response"
    return answer


def _bytes_input(name: str, value: str) -> triton.InferInput:
    tensor = triton.InferInput(name, [1], "BYTES")
    tensor.set_data_from_numpy(np.array([value.encode()], dtype=np.object_))
    return tensor


def _bool_input(name: str, value: bool) -> triton.InferInput:
    tensor = triton.InferInput(name, [1], "BOOL")
    tensor.set_data_from_numpy(np.array([value]))
    return tensor


class Load:
    """Streams over both protocols from some models until it is stopped; keeps every answer.

    After an answer each client waits for `pause_s`. `prompt` makes that of a request's number.
    """

    def __init__(
        self,
        http: str,
        grpc: str,
        models: list[str],
        *,
        streams_per_protocol: int = 2,
        parameters: Mapping[str, Any] | None = None,
        pause_s: float = 0,
        prompt: Callable[[int], str] = "count from {}".format,
    ) -> None:
        self.answers: dict[str, list[Answer]] = {model: [] for model in models}
        self._http, self._grpc, self._streams = http, grpc, streams_per_protocol
        self._parameters = {"max_tokens": 64, **(parameters or {})}
        self._pause_s, self._prompt = pause_s, prompt
        self._stop = asyncio.Event()
        self._news = asyncio.Condition()
        self.sent = 0  # requests
        # (model, protocol) -> the newest request that was answered in full, by its number
        self._answered: dict[tuple[str, str], int] = {}

    async def __aenter__(self) -> Load:
        self._tasks = [
            asyncio.create_task(self._repeat(model, protocol))
            for model in self.answers
            for protocol in PROTOCOLS
            for _ in range(self._streams)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await asyncio.gather(*self._tasks)

    def stop(self) -> None:
        """Sends no more requests; those in flight are completed."""
        self._stop.set()

    @property
    def failures(self) -> list[str]:
        """The failures, with the times of their requests in seconds after the first request."""
        everything = [(m, a) for m, answers in self.answers.items() for a in answers]
        first_s = min((answer.started_s for _, answer in everything), default=0.0)
        return [
            f"{model}, {a.started_s - first_s:.2f} to {a.ended_s - first_s:.2f} s: {a.error}"
            for model, a in everything
            if a.error
        ]

    async def answered(self, model: str, *, after: int = 0) -> float:
        """Waits until each protocol has answered a request that was sent after the first `after`
        ones; returns the time of `time.monotonic`."""
        async with self._news:
            await self._news.wait_for(
                lambda: all(
                    self._answered.get((model, protocol), 0) > after for protocol in PROTOCOLS
                )
            )
        return time.monotonic()

    async def answers_of(self, model: str, count: int) -> None:
        """Waits until so many requests of a model were answered."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.answers[model]) >= count)

    async def _repeat(self, model: str, protocol: str) -> None:
        stream, address = PROTOCOLS[protocol], self._http if protocol == "openai" else self._grpc
        while not self._stop.is_set():
            self.sent += 1
            number = self.sent
            # Prompts of their own: the gateway sends those that begin alike to one replica.
            answer = await stream(address, model, self._prompt(number), **self._parameters)
            answer.ended_s = time.monotonic()
            self.answers[model].append(answer)
            if answer.error:
                # A refused connection returns at once; do not spin on it.
                await asyncio.sleep(0.1)
                continue
            async with self._news:
                newest = max(number, self._answered.get((model, protocol), 0))
                self._answered[model, protocol] = newest
                self._news.notify_all()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._pause_s)


PROTOCOLS: Mapping[str, Callable[..., Awaitable[Answer]]] = {
    "openai": openai_stream,
    "grpc": grpc_stream,
}
