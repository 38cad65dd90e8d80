"""The answer to one request: tokens become text, and the request's faults take effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from simulator.core.sequence import Sequence
from simulator.faults import Faults, InjectedDeath
from simulator.metrics import EngineMetrics
from simulator.text import Answer, StopStrings


@dataclass(frozen=True, slots=True)
class Delta:
    """The text since the previous delta; several tokens if the reader was slow."""

    text: str
    tokens: int
    finish_reason: str | None = None


class Generation:
    """Filled by the engine's loop, read by the handler of one request."""

    def __init__(
        self,
        *,
        sequence: Sequence,
        answer: Answer,
        stop: tuple[str, ...],
        length_reason: str,
        faults: Faults,
        metrics: EngineMetrics,
        arrived_s: float,
    ) -> None:
        self.output_tokens = 0  # tokens handed to the reader
        self._sequence = sequence
        self._answer = answer
        self._stops = StopStrings(stop)
        self._length_reason = length_reason
        self._faults = faults
        self._metrics = metrics
        self._arrived_s = arrived_s
        self._token_times_s: list[float] = []
        self._scheduled = False
        self._finished = False
        self._news = asyncio.Event()

    @property
    def prompt_tokens(self) -> int:
        return len(self._sequence.prompt)

    @property
    def max_tokens(self) -> int:
        return self._sequence.max_tokens

    @property
    def cached_tokens(self) -> int:
        return self._sequence.cached_tokens or 0

    @property
    def stop_string(self) -> str | None:
        """The stop string that has ended the answer."""
        return self._stops.found

    def scheduled(self, now_s: float) -> None:
        """Called when the engine puts the request into a batch."""
        if not self._scheduled:
            self._scheduled = True
            self._metrics.queue_time.observe(now_s - self._arrived_s)

    def put(self, *, last: bool, now_s: float) -> None:
        """Called when the engine has generated the next token."""
        if self._token_times_s:
            self._metrics.between_tokens(now_s - self._token_times_s[-1])
        else:
            self._metrics.time_to_first_token.observe(now_s - self._arrived_s)
            self._metrics.prompt_tokens.inc(self.prompt_tokens)
        self._metrics.generation_tokens.inc()
        self._token_times_s.append(now_s)
        if last:
            self.finish(self._length_reason, now_s)
        self._news.set()

    def finish(self, reason: str, now_s: float) -> None:
        """Count the request once, whoever ends it first."""
        if not self._finished:
            self._finished = True
            self._metrics.finished[reason].inc()
            self._metrics.e2e_request_latency.observe(now_s - self._arrived_s)

    async def deltas(self) -> AsyncIterator[Delta]:
        """Text as it comes; the last delta alone has a finish reason.

        Raises:
            InjectedDeath: the fault `die`.
        """
        while True:
            start, stop = self.output_tokens, await self._available()
            text, stopped = self._stops.feed(self._answer.text(start, stop))
            self.output_tokens = stop
            if stopped:
                self.finish("stop", asyncio.get_running_loop().time())
                yield Delta(text, stop - start, "stop")
                return
            if stop == self._sequence.max_tokens:
                yield Delta(text + self._stops.rest(), stop - start, self._length_reason)
                return
            yield Delta(text, stop - start)

    async def _available(self) -> int:
        """Waits for at least one more token; returns how many the reader may have by now."""
        start = self.output_tokens
        if start == self._faults.hang:
            await asyncio.Event().wait()
        if start == self._faults.die:
            raise InjectedDeath
        while len(self._token_times_s) == start:
            self._news.clear()
            await self._news.wait()
        if self._faults.slow != 1:
            await self._dilate(start)
            return start + 1
        limits = (self._faults.hang, self._faults.die)
        made = len(self._token_times_s)
        return min([made, *(limit for limit in limits if limit is not None)])

    async def _dilate(self, index: int) -> None:
        """Waits until token `index` is `slow` times as old as it was when it was generated."""
        age_s = self._token_times_s[index] - self._arrived_s
        due_s = self._arrived_s + self._faults.slow * age_s
        await asyncio.sleep(due_s - asyncio.get_running_loop().time())
