"""Asking a model the same question over both protocols of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from slipway.cli.applied import Applied, AppliedModel
from slipway.cli.protocols import openai_http
from slipway.cli.protocols.answer import Answer, NoAnswerError, Piece, collect

QUESTION = "What is the capital of France?"
# A busy engine may send a few tokens in one piece; so many come in one only where the whole answer
# was held back until its end.
STREAMED_TOKENS = 8
NAMES = {"http": "OpenAI", "grpc": "Triton"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one model answered over each of its protocols; where one did not, `error` says why."""

    model: str
    openai: Answer | None
    grpc: Answer | None
    error: str = ""

    @property
    def ready(self) -> bool:
        return not self.error


def ask(applied: Applied, model: AppliedModel, *, max_tokens: int) -> Probe:
    """One question over each of the model's protocols: OpenAI's first, then Triton's."""
    return asyncio.run(_ask(applied, model, max_tokens))


async def _ask(applied: Applied, model: AppliedModel, max_tokens: int) -> Probe:
    answers: dict[str, Answer] = {}
    for protocol in model.protocols:
        try:
            answers[protocol] = await _streamed(
                _pieces(applied, model.name, protocol, max_tokens=max_tokens)
            )
        except NoAnswerError as error:
            return _probe(model, answers, error=f"{NAMES[protocol]}: {error.message}")
    return _probe(model, answers)


def _probe(model: AppliedModel, answers: Mapping[str, Answer], *, error: str = "") -> Probe:
    return Probe(
        model=model.name, openai=answers.get("http"), grpc=answers.get("grpc"), error=error
    )


def _pieces(
    applied: Applied, model: str, protocol: str, *, max_tokens: int
) -> AsyncIterator[Piece]:
    if protocol == "http":
        return openai_http.stream_chat(applied.gateway_http, model, QUESTION, max_tokens=max_tokens)
    # Its import takes a third of a second: not before there is somebody to ask.
    from slipway.cli.protocols import triton_grpc  # noqa: PLC0415

    return triton_grpc.stream_chat(applied.gateway_grpc, model, QUESTION, max_tokens=max_tokens)


async def _streamed(pieces: AsyncIterator[Piece]) -> Answer:
    answer = await collect(pieces)
    # Triton's protocol does not count tokens: there each word counts as one.
    tokens = max(answer.tokens, len(answer.text.split()))
    if tokens >= STREAMED_TOKENS and answer.pieces == 1:
        raise NoAnswerError(
            f"all {tokens} tokens came in one piece: the answer is not streamed",
            fix="look for a proxy between here and the gateway that holds answers back",
        )
    return answer
