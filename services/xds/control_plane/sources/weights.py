"""The weights of replicas from Consul: KV documents under slipway/weights/."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from ..kv_document import BadDocumentError
from ..weights.document import LOCK_KEY, WEIGHTS_PREFIX, weights_from_kv
from .blocking_query import BlockingQuery
from .reachability import Reachability

NOBODY_S = 60.0  # without a holder of the lock; a new one comes within 30 s

log = logging.getLogger(__name__)


class WeightsSource:
    """Keeps `served`, the weights by model and replica. They are kept while Consul cannot be
    reached, and dropped once nobody has computed any for a minute. A bad document keeps the model's
    last good one."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        reachability: Reachability,
        on_weights: Callable[[Mapping[str, Mapping[str, int]]], None],
    ) -> None:
        query = BlockingQuery(
            session, f"/v1/kv/{WEIGHTS_PREFIX}", {"recurse": "true"}, reachability
        )
        self._query = query
        self._reachability = reachability
        self._first = True
        self._on_weights = on_weights
        self._dropping: asyncio.TimerHandle | None = None
        self._abandoned = False  # nobody has held the lock for NOBODY_S
        self._dropped: dict[str, int] = {}  # documents by key, with their index then
        self._seen: dict[str, int] = {}
        self.served: Mapping[str, Mapping[str, int]] = {}
        self.problems: Mapping[str, str] = {}  # by model

    async def run(self) -> None:
        async for answer in self._query.answers():
            if not answer.lost:
                self._take(answer.document or [])

    def _take(self, entries: list[dict[str, Any]]) -> None:
        self._look_for_holder(entries)
        self._seen = {str(entry["Key"]): int(entry["ModifyIndex"]) for entry in entries}
        if self._abandoned:
            self._dropped = self._seen
        read, problems = {}, {}
        for entry in entries:
            key = str(entry["Key"])
            model = key.removeprefix(WEIGHTS_PREFIX)
            if not model or key == LOCK_KEY:
                continue
            try:
                weights = weights_from_kv(entry).replicas
            except BadDocumentError as error:
                log.error("weights refused, keeping the model's last good ones: %s", error)
                problems[model] = str(error)
                if model in self.served:
                    read[model] = dict(self.served[model])
            else:
                if self._dropped.get(key) != self._seen[key]:
                    read[model] = weights
        self.problems = problems
        self._serve(read)

    def _look_for_holder(self, entries: list[dict[str, Any]]) -> None:
        if any(entry["Key"] == LOCK_KEY and entry.get("Session") for entry in entries):
            if self._dropping:
                self._dropping.cancel()
            self._dropping, self._abandoned = None, False
        elif self._dropping is None:
            self._dropping = asyncio.get_running_loop().call_later(NOBODY_S, self._drop)

    def _drop(self) -> None:
        """Until they are written again. Not while Consul is away: somebody may hold the lock."""
        if self._reachability.stale_s():
            self._dropping = asyncio.get_running_loop().call_later(NOBODY_S, self._drop)
            return
        if self.served:
            log.warning("weights: nobody has computed any for %s s: all are equal", NOBODY_S)
        self._abandoned, self._dropped = True, self._seen
        self._serve({})

    def _serve(self, weights: Mapping[str, Mapping[str, int]]) -> None:
        """A missing prefix is answered at each change of any key, which is no news."""
        if self._first or weights != self.served:
            self._first = False
            self.served = weights
            self._on_weights(weights)
