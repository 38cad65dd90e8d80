"""Asking a model the same question over both protocols of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from cli.applied import Applied, AppliedModel
from cli.protocols import openai_http
from cli.protocols.answer import Answer, NoAnswerError, Piece, collect

QUESTION = "What is the capital of France?"
# A busy engine may send a few tokens in one piece, but this many tokens or words arrive in one
# piece only if the whole answer was held back until its end.
STREAMED_TOKENS = 8
STREAMED_WORDS = 4
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
    """One question over each of the model's protocols: OpenAI's first, then Triton's.

    The first answer has up to `max_tokens`; a few tokens prove that the other protocol streams too.
    """
    return asyncio.run(_ask(applied, model, max_tokens))


def import_protocols(models: Iterable[AppliedModel]) -> None:
    """Imports early what `ask` needs for these models: a quarter of a second for Triton's. What
    cannot be imported is left to `ask`, which fails by it."""
    if any("grpc" in model.protocols for model in models):
        with suppress(ImportError):
            from cli.protocols import triton_grpc  # noqa: F401, PLC0415


async def _ask(applied: Applied, model: AppliedModel, max_tokens: int) -> Probe:
    answers: dict[str, Answer] = {}
    for protocol in model.protocols:
        length = min(max_tokens, STREAMED_TOKENS) if answers else max_tokens
        try:
            answers[protocol] = await _streamed(
                _pieces(applied, model.name, protocol, max_tokens=length)
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
        return openai_http.stream_chat(
            applied.gateway_http, model, QUESTION, max_tokens=max_tokens, tls=applied.tls
        )
    # Imported here, because it takes long, and only models with gRPC need it.
    from cli.protocols import triton_grpc  # noqa: PLC0415

    return triton_grpc.stream_chat(
        applied.gateway_grpc, model, QUESTION, max_tokens=max_tokens, tls=applied.tls
    )


async def _streamed(pieces: AsyncIterator[Piece]) -> Answer:
    answer = await collect(pieces)
    words = len(answer.text.split())  # Triton's protocol does not count tokens
    if answer.pieces == 1 and (words >= STREAMED_WORDS or answer.tokens >= STREAMED_TOKENS):
        raise NoAnswerError(
            f'the whole answer came in one piece ("{answer.text.strip()}"): it is not streamed',
            fix="look for a proxy between here and the gateway that holds answers back",
        )
    return answer
