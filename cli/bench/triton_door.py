"""Triton's ModelStreamInfer, with the moments at which messages came from gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from cli.bench.outcome import CUT, IN_STREAM, NO_TEXT, TIMEOUT, Answered, Ask, Failed, Outcome
from cli.bench.workload import Prompt
from cli.certificates import PublicTls
from cli.protocols.triton_grpc import COUNTS, TEXT, chat_text, client_of, request_of

INPUT_TOKENS, OUTPUT_TOKENS = COUNTS


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonDoor:
    """`gateway` is host:port. All clients share its channel, in which each question has a stream
    of its own. A request without an end after `timeout_s` has failed."""

    gateway: str
    model: str
    timeout_s: float
    now_s: Callable[[], float]
    tls: PublicTls | None = None
    channels: list[Any] = field(default_factory=list)  # at most one, made in the loop that uses it

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Ask]:
        if not self.channels:
            self.channels.append(client_of(self.gateway, self.tls))
        yield self._ask

    async def close(self) -> None:
        while self.channels:
            await self.channels.pop().close()

    async def _ask(self, prompt: Prompt) -> Outcome:
        request = self._request(prompt)

        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield request

        (channel,) = self.channels
        messages: list[tuple[float, Any, Any]] = []
        sent_s = self.now_s()
        try:
            async with asyncio.timeout(self.timeout_s):
                async for result, error in channel.stream_infer(requests()):
                    messages.append((self.now_s(), result, error))
        except TimeoutError:
            said = f"no end within {self.timeout_s:g} s"
            return Failed(sent_s=sent_s, ended_s=self.now_s(), kind=TIMEOUT, said=said)
        except (InferenceServerException, grpc.aio.AioRpcError) as error:
            kind, said = _status(error)
            return Failed(sent_s=sent_s, ended_s=self.now_s(), kind=kind, said=said)
        return outcome_of(messages, sent_s=sent_s, ended_s=self.now_s())

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        sampling: dict[str, Any] = {"max_tokens": prompt.max_tokens}
        if prompt.whole_length:
            sampling["ignore_eos"] = True
        text = chat_text(prompt.text, prompt.system) if prompt.chat else prompt.text
        return request_of(self.model, text, sampling, counted=True)


def outcome_of(
    messages: Sequence[tuple[float, Any, Any]], *, sent_s: float, ended_s: float
) -> Outcome:
    """What the messages (moment, result, error) of a stream say."""

    def failed(kind: str, said: str) -> Failed:
        return Failed(sent_s=sent_s, ended_s=ended_s, kind=kind, said=said)

    for _, _, error in messages:
        if error is not None:
            return failed(IN_STREAM, str(error.message()))
    if not messages:
        return failed(CUT, "the stream ended without an answer")
    moments = [at_s for at_s, result, _ in messages if _text(result)]
    if not moments:
        return failed(NO_TEXT, "the stream ended without any text")
    counted = [_number(result, OUTPUT_TOKENS) for _, result, _ in messages]
    tokens = sum(number or 0 for number in counted)
    return Answered(
        sent_s=sent_s,
        first_s=moments[0],
        last_s=moments[-1],
        output_tokens=tokens or len(moments),
        input_tokens=_number(messages[0][1], INPUT_TOKENS),
    )


def _text(result: Any) -> bool:
    output = result.as_numpy(TEXT)
    return output is not None and any(output.reshape(-1))


def _number(result: Any, name: str) -> int | None:
    output = result.as_numpy(name)
    return int(output.reshape(-1)[0]) if output is not None and output.size else None


def _status(error: Any) -> tuple[str, str]:
    """The kind of a failed call, and what was said."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"gRPC {error.code().name}", error.details() or ""
    status = str(error.status() or "").removeprefix("StatusCode.")
    return f"gRPC {status or 'error'}", str(error.message())
