"""The OpenAI protocol: chat completions over server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from cli.certificates import PublicTls, trusted
from cli.protocols.answer import NoAnswerError, Piece
from cli.protocols.openai_format import DATA, DONE, chat_request, message_of, piece_of, refusal

CONNECT_TIMEOUT_S = 5.0


async def stream_chat(
    gateway: str,
    model: str,
    prompt: str,
    *,
    system: str | None = None,
    max_tokens: int,
    timeout_s: float = 120.0,
    tls: PublicTls | None = None,
) -> AsyncIterator[Piece]:
    """Pieces of the answer at temperature 0; `timeout_s` bounds each wait for the next one.
    `gateway` is a URL; with `tls` it is verified by its name, whatever the URL says.

    Raises NoAnswerError for an error of the gateway or the engine, or a stream that breaks off.
    """
    timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S)
    body = chat_request(model, prompt, system, max_tokens)
    try:
        async with (
            httpx.AsyncClient(
                timeout=timeout, trust_env=False, verify=tls.context() if tls else trusted()
            ) as client,
            client.stream(
                "POST",
                f"{gateway}/v1/chat/completions",
                json=body,
                extensions={"sni_hostname": tls.name} if tls else None,
            ) as response,
        ):
            if response.is_error:
                raise _refused(response.status_code, (await response.aread()).decode())
            async for event in _events(response.aiter_lines()):
                yield _piece(event)
    except httpx.HTTPError as error:
        raise NoAnswerError(
            f"{gateway}: {error or type(error).__name__}",
            fix="slipway status shows whether the gateway runs, and what to do if nothing does",
        ) from None


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    """The JSON of each event up to `[DONE]`; comments and blank lines are skipped."""
    async for line in lines:
        if not line.startswith(DATA):
            continue
        data = line.removeprefix(DATA).strip()
        if data == DONE:
            return
        try:
            yield json.loads(data)
        except ValueError:
            raise NoAnswerError(
                f"the stream contains an invalid event: {data[:80]!r}", fix="slipway logs envoy"
            ) from None
    raise NoAnswerError(
        "the stream ended without [DONE]: its replica or the gateway went away",
        fix="ask again; slipway status shows the replicas",
    )


def _piece(event: dict[str, Any]) -> Piece:
    if "error" in event:
        raise NoAnswerError(message_of(event), fix="slipway logs shows what the engine says")
    return piece_of(event)


def _refused(status: int, body: str) -> NoAnswerError:
    return NoAnswerError(
        f"HTTP {status}: {refusal(body)}",
        fix="slipway status shows the models and their replicas",
    )
