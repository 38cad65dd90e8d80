"""Consul blocking queries: watch one endpoint for as long as the iterator is read.

Rules: https://developer.hashicorp.com/consul/api-docs/features/blocking
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
from aiolimiter import AsyncLimiter
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from .reachability import Reachability

WAIT_S = 60
_TIMEOUT_S = WAIT_S * (1 + 1 / 16) + 10  # Consul adds up to a sixteenth of jitter
_BURST = 2
_QUERIES_PER_S = 20
_FILTERED = "X-Consul-Results-Filtered-By-ACLs"

log = logging.getLogger(__name__)


class ConsulError(Exception):
    """Consul answered with an error: no leader, no permission, too many requests."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`document` is None if Consul answers 404. `lost` means an empty answer with a lower index
    than before: Consul has lost its state, and nobody removed all entries on purpose."""

    document: Any
    lost: bool
    index: int


class BlockingQuery:
    """Watches one path of Consul's HTTP API. Failures are retried forever and never yielded."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        path: str,
        params: Mapping[str, str],
        reachability: Reachability,
        seen_index: int = 0,
    ) -> None:
        self._session = session
        self._path = path
        self._params = params
        self._reachability = reachability
        self._limiter = AsyncLimiter(_BURST, _BURST / _QUERIES_PER_S)
        self._index = 0
        self._seen_index = seen_index  # of the last accepted answer; kept across failures

    async def answers(self) -> AsyncIterator[Answer]:
        """Every answer of Consul, which may be unchanged."""
        while True:
            async for attempt in self._retrying():
                with attempt:
                    document, index = await self._fetch()
            self._reachability.reached(self._path)
            lost = not document and index < self._seen_index
            if not lost:
                self._seen_index = index
            self._index = 0 if index < self._index else index
            yield Answer(document, lost, index)

    def _retrying(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type((aiohttp.ClientError, asyncio.TimeoutError, ConsulError)),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            before_sleep=self._failed,
        )

    async def _fetch(self) -> tuple[Any, int]:
        async with self._limiter:
            # Consistent: a server that has just restarted answers other queries before it has read
            # all of its log, as if models and replicas did not exist.
            params = {
                **self._params,
                "index": str(self._index),
                "wait": f"{WAIT_S}s",
                "consistent": "",
            }
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
            async with self._session.get(self._path, params=params, timeout=timeout) as response:
                if response.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                    reason = (await response.text()).strip()[:200]
                    raise ConsulError(f"HTTP {response.status}: {reason}")
                index = max(1, int(response.headers.get("X-Consul-Index", 1)))
                found = response.status == HTTPStatus.OK
                document = _json(await response.read()) if found else None
                if not document and response.headers.get(_FILTERED) == "true":
                    raise ConsulError("the token may not read it: every entry was filtered out")
                return document, index

    def _failed(self, state: RetryCallState) -> None:
        """After a failure query without an index: a blocking query would not return for missed
        changes."""
        self._index = 0
        error = state.outcome.exception() if state.outcome else None
        if self._reachability.failed(self._path):
            log.warning("consul: %s: %s (keeping the last known state)", self._path, error)


def _json(text: bytes) -> Any:
    """Faster than aiohttp's: one changed route comes with those of all models."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConsulError(f"the answer is not JSON: {error}") from error
