"""Whether the figures are the model's, or those of a client that could not keep up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cli.bench.figures import Figures, Percentiles, percentiles

PERIOD_S = 0.02
# epoll waits whole milliseconds: a timer may come this late on an idle loop.
TIMER_S = 0.001
# A moment is recorded as late as the loop is, so what the loop is late by is in every time. Up to
# this share of a time it is left unsaid: figures need not be better than that for a plan, whose
# estimates have larger errors.
MOST_LAG = 0.05
# One thread records everything. At this share of its time, random arrivals wait on average for two
# others: rho / (2 (1 - rho)) = 2 in an M/D/1 queue (Pollaczek and Khinchine).
MOST_PROCESSOR = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """How late the client's event loop was, and the share of a processor that its thread used."""

    lag_ms: Percentiles | None
    processor: float


class ClientWatch:
    """Measures its own event loop while a block runs, by a timer every PERIOD_S."""

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        processor_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._now_s, self._processor_s = now_s, processor_s
        self._lags_ms: list[float] = []
        self._elapsed_s = self._used_s = 0.0

    async def __aenter__(self) -> ClientWatch:
        self._elapsed_s, self._used_s = -self._now_s(), -self._processor_s()
        self._looking = asyncio.get_running_loop().create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()
        self._elapsed_s += self._now_s()
        self._used_s += self._processor_s()

    @property
    def load(self) -> ClientLoad:
        """After the block."""
        return ClientLoad(
            lag_ms=percentiles(self._lags_ms),
            processor=self._used_s / self._elapsed_s if self._elapsed_s else 0.0,
        )

    async def _look(self) -> None:
        while True:
            due_s = self._now_s() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            self._lags_ms += _lags_ms(self._now_s() - due_s - TIMER_S)


def _lags_ms(late_s: float) -> Iterator[float]:
    """Of a moment that came `late_s` too late, and of those that were due meanwhile: without them,
    a second in which the loop is blocked would count as one moment of fifty."""
    yield 1000 * max(0.0, late_s)
    missed = 1
    while (rest_s := late_s - missed * PERIOD_S) > 0:
        yield 1000 * rest_s
        missed += 1


def bottleneck(client: ClientLoad, figures: Figures) -> str:
    """Why the client itself limits the figures; "" where it does not."""
    if client.processor >= MOST_PROCESSOR:
        return (
            f"its thread used {client.processor:.0%} of a processor, and requests wait for it from"
            f" {MOST_PROCESSOR:.0%} on"
        )
    if client.lag_ms is None or figures.ttft_ms is None:
        return ""
    for share in ("p50", "p95", "p99"):
        lag_ms, ttft_ms = getattr(client.lag_ms, share), getattr(figures.ttft_ms, share)
        if lag_ms > MOST_LAG * ttft_ms:
            return (
                f"its event loop was {lag_ms:.1f} ms late at {share}, over {MOST_LAG:.0%} of the"
                f" TTFT of {ttft_ms:.0f} ms, which may be too high by as much"
            )
    return ""
