"""Asking the replica over HTTP: does it answer over both protocols, and what is in flight."""

from __future__ import annotations

import asyncio
import re
import socket

import aiohttp

from replica.settings import Settings

# On a loaded machine the engine answers late without being dead.
REQUEST_TIMEOUT_S = 10.0
ASK_TIMEOUT_S = 1.0

IN_FLIGHT_METRICS = re.compile(
    r"^(?:vllm:num_requests_(?:running|waiting)|slipway_triton_requests_in_flight)"
    r"\{[^}]*\} (?P<value>\S+)$",
    re.MULTILINE,
)


def taken_port(settings: Settings) -> str:
    """A port on which another process listens, and the system's error; empty if all are free.

    The other process would be taken for this replica.
    """
    for port in settings.ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.address, port))
            except OSError as error:
                return f"{settings.address}:{port}: {error.strerror}"
    return ""


class Endpoints:
    def __init__(self, settings: Settings, session: aiohttp.ClientSession) -> None:
        self._openai = settings.engine_url
        self._triton = f"http://{settings.address}:{settings.port_http}"
        self._metrics = f"http://{settings.address}:{settings.port_metrics}/metrics"
        self._session = session

    async def engine_is_healthy(self) -> bool:
        return await self._answers(f"{self._openai}/health")

    async def api_server_answers(self) -> bool:
        """Whatever its answer is."""
        return await self._responds(f"{self._openai}/health")

    async def triton_answers(self) -> bool:
        return await self._responds(f"{self._triton}/v2/health/live")

    async def model_is_ready(self, name: str) -> bool:
        """Asks Triton."""
        return await self._answers(f"{self._triton}/v2/models/{name}/ready")

    async def generates(self, model: str) -> bool:
        """Generates one token, which also makes the engine allocate what a first request needs, and
        on accelerators compile what a first one with logprobs needs: 0 of them are allowed always.
        """
        body = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0, "logprobs": 0}
        try:
            async with self._session.post(f"{self._openai}/v1/completions", json=body) as reply:
                return reply.status == 200
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return False

    async def requests_in_flight(self) -> int:
        """Over both protocols. Triton's requests count twice: harmless, as callers wait for 0.

        Raises aiohttp.ClientError or TimeoutError if one does not answer.
        """
        in_flight = 0.0
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
        for url in (f"{self._openai}/metrics", self._metrics):
            async with self._session.get(url, timeout=timeout) as reply:
                in_flight += sum_in_flight(await reply.text())
        return round(in_flight)

    async def _responds(self, url: str) -> bool:
        try:
            timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
            async with self._session.get(url, timeout=timeout):
                return True
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return False

    async def _answers(self, url: str) -> bool:
        try:
            timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
            async with self._session.get(url, timeout=timeout) as reply:
                return reply.status == 200
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return False


def sum_in_flight(metrics: str) -> float:
    """Requests in flight according to one page of metrics, vLLM's or Triton's."""
    return sum(float(match["value"]) for match in IN_FLIGHT_METRICS.finditer(metrics))
