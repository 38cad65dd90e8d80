"""Computes weights and writes them to Consul, as long as this control plane holds the lock."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from ..routing import RoutingTable
from .document import WEIGHTS_PREFIX, Weights, by_replica
from .lock import Lock, RefusedError
from .signals import Signal
from .weigher import Weigher

INTERVAL_S = 5.0  # Prometheus scrapes no more often, and sessions are renewed in time

log = logging.getLogger(__name__)


class Computing:
    """`served` are the weights that all control planes read, by model and replica."""

    def __init__(
        self,
        lock: Lock,
        *,
        reported: Callable[[], Awaitable[Mapping[str, Signal]]],
        table: Callable[[], RoutingTable | None],
        served: Callable[[], Mapping[str, Mapping[str, int]]],
    ) -> None:
        self._lock = lock
        self._reported = reported
        self._table = table
        self._served = served
        self._weigher = Weigher()
        self._failing = set[str]()

    async def run(self) -> None:
        """Until cancelled. Failures are logged: requests do not depend on weights."""
        try:
            while True:
                try:
                    await self.step()
                except Exception as error:
                    self._failed("computing", error)
                else:
                    self._failing.discard("computing")
                await asyncio.sleep(INTERVAL_S)
        finally:
            with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError):
                await self._lock.release()

    async def step(self) -> None:
        table = self._table()
        if table is None:
            return
        try:
            if await self._lock.held():
                signals = await self._signals()
                await self._write(table, signals)
            self._failing.discard("consul")
        except (aiohttp.ClientError, asyncio.TimeoutError, RefusedError) as error:
            self._failed("consul", error)

    async def _signals(self) -> Mapping[str, Signal]:
        """None of any replica, if they cannot be had."""
        try:
            found = await self._reported()
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
            self._failed("prometheus", error)
            return {}
        self._failing.discard("prometheus")
        return found

    async def _write(self, table: RoutingTable, signals: Mapping[str, Signal]) -> None:
        served = self._served()
        groups = replicas_of(table)
        current = by_replica(served.values())
        of_all = [group for groups_of_model in groups.values() for group in groups_of_model]
        weights = self._weigher.weights(of_all, current, signals, time.monotonic())
        wanted = {
            model: {replica: weights[replica] for group in of_model for replica in sorted(group)}
            for model, of_model in groups.items()
        }
        values = {
            WEIGHTS_PREFIX + model: Weights(model=model, replicas=replicas).model_dump_json()
            for model, replicas in wanted.items()
            if replicas != served.get(model)
        }
        gone = [WEIGHTS_PREFIX + model for model in served.keys() - wanted.keys()]
        if values or gone:
            await self._lock.write(values, gone)

    def _failed(self, whom: str, error: Exception) -> None:
        """Logs the first of consecutive failures. Not by `repr`, which of an answer has the headers
        of the request, and so Consul's token."""
        if whom not in self._failing:
            reason = f"{type(error).__name__}: {error}"
            log.warning("weights: %s: %s (the weights fade to equal ones)", whom, reason)
        self._failing.add(whom)


def replicas_of(table: RoutingTable) -> dict[str, list[set[str]]]:
    """The replicas of each job of a model. A single one is among them: beside it, the next one is
    new."""
    found = {}
    for route in table.routes:
        jobs = [
            {
                endpoint.replica
                for protocol in route.protocols
                for endpoint in table.endpoints.get(backend.cluster(protocol), ())
                if endpoint.replica
            }
            for backend in route.backends
        ]
        if running := [replicas for replicas in jobs if replicas]:
            found[route.model] = running
    return found
