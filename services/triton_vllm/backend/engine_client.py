"""vLLM's completions API over HTTP: one request, a stream of JSON chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

# On a loaded machine it may take seconds. An engine that has ended refuses the connection at
# once, so a long limit costs nothing.
CONNECT_TIMEOUT_S = 60.0
# Triton's errors are part of its streams, which no gateway can begin again: the engine turns none
# of these requests away (engine_turning_away.py).
HEADERS = {"x-slipway-cannot-go-elsewhere": "true"}


class EngineError(Exception):
    """The engine refused a request or could not finish it; the text is for the client.

    `status` is the engine's HTTP status, 503 if it could not be reached or went away.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineClient:
    """A pool of connections to one engine. Closing a response aborts the request in the engine."""

    def __init__(self, engine_url: str) -> None:
        self._engine_url = engine_url
        self._session = aiohttp.ClientSession(
            headers=HEADERS,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        )
        self._decoded_tokens: dict[int, str] = {}

    async def close(self) -> None:
        await self._session.close()

    async def complete(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The chunks of one completion, or the whole answer if `body` does not ask for a stream."""
        try:
            async with self._session.post(f"{self._engine_url}/v1/completions", json=body) as reply:
                if reply.status != 200:
                    raise EngineError(_refusal(await reply.read(), reply.status), reply.status)
                if not body.get("stream"):
                    yield json.loads(await reply.read())
                    return
                async for chunk in _events(reply):
                    yield chunk
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise EngineError(f"the engine went away: {error}", 503) from error

    async def decode_token(self, model: str, token_id: int) -> str:
        """The text of one token. Cached: the vocabulary is finite and does not change."""
        if token_id not in self._decoded_tokens:
            body = {"model": model, "tokens": [token_id]}
            try:
                async with self._session.post(f"{self._engine_url}/detokenize", json=body) as reply:
                    answer = await reply.read()
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                raise EngineError(f"the engine went away: {error}", 503) from error
            if reply.status != 200:
                raise EngineError(_refusal(answer, reply.status), reply.status)
            self._decoded_tokens[token_id] = json.loads(answer)["prompt"]
        return self._decoded_tokens[token_id]


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The data of each server-sent event until `[DONE]`.

    Raises EngineError for an error in the stream, and for an end without `[DONE]`: the engine
    died or was stopped.
    """
    pending = b""
    # Not readline(): an event with many logprobs is longer than its limit.
    async for piece in reply.content.iter_any():
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[len(b"data:") :].strip()
            if data == b"[DONE]":
                return
            chunk = json.loads(data)
            if "error" in chunk:
                raise EngineError(_refusal(data, 500), int(chunk["error"].get("code") or 500))
            yield chunk
    raise EngineError("the engine ended the stream before it was complete", 503)


def _refusal(answer: bytes, status: int) -> str:
    """The message of the engine's error document."""
    try:
        return str(json.loads(answer)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the engine answered HTTP {status}: {answer[:200].decode('utf-8', 'replace')}"
