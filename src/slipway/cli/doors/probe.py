"""Asking a model through both doors of the gateway."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from slipway.cli.applied import Applied, AppliedModel
from slipway.cli.doors import openai_door
from slipway.cli.doors.answer import Answer, NoAnswerError, collect

QUESTION = "What is the capital of France?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one model answered over each door; None where it did not, then `error` says why."""

    model: str
    openai: Answer | None
    grpc: Answer | None
    error: str = ""

    @property
    def ready(self) -> bool:
        return self.openai is not None and self.grpc is not None


def ask(applied: Applied, model: AppliedModel, *, max_tokens: int) -> Probe:
    """One question over the OpenAI door, and then over the Triton door."""
    return asyncio.run(_ask(applied, model.name, max_tokens))


async def _ask(applied: Applied, model: str, max_tokens: int) -> Probe:
    # Its import takes a third of a second: not before there is somebody to ask.
    from slipway.cli.doors import triton_door  # noqa: PLC0415

    over_http: Answer | None = None
    try:
        over_http = await collect(
            openai_door.stream_chat(applied.gateway_http, model, QUESTION, max_tokens=max_tokens)
        )
        over_grpc = await collect(
            triton_door.stream_chat(applied.gateway_grpc, model, QUESTION, max_tokens=max_tokens)
        )
    except NoAnswerError as error:
        door = "OpenAI" if over_http is None else "Triton"
        return Probe(model=model, openai=over_http, grpc=None, error=f"{door}: {error.message}")
    return Probe(model=model, openai=over_http, grpc=over_grpc)
