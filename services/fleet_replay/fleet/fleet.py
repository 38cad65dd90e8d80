"""Replicas of one model behind a gateway, scaled like the platform's, under a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace

from simulator.core.scheduler import Limits, Output
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile

from fleet.autoscaling import Autoscaler, ScalingPolicy
from fleet.content import sequences
from fleet.engine import Engine, Timing
from fleet.routing import ROUTERS
from fleet.trace import Request

# Why a request was not served: answered by Envoy with 503 and 429, and by the engine with 400.
NO_REPLICA = "no_ready_replica"
OVER_LIMIT = "over_request_limit"
TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """`request_limit` is the gateway's limit of requests in flight per ready replica."""

    name: str
    profile: Profile
    limits: Limits
    max_model_len: int
    scaling: ScalingPolicy
    startup_s: float
    routing: str
    request_limit: int
    accelerators_per_replica: int
    usd_per_hour_per_replica: float | None
    ttft_goal_ms: float | None
    tpot_goal_ms: float | None


@dataclass(slots=True, kw_only=True)
class Replica:
    """Costs money from `started_ms` until it is gone, serves from `ready_ms` until it drains."""

    number: int
    started_ms: float
    ready_ms: float
    engine: Engine
    drains_from_ms: float | None = None
    last_answer_ms: float = 0.0
    gone_ms: float | None = None

    @property
    def in_flight(self) -> int:
        return self.engine.in_flight

    def cost_ms(self, ended_ms: float) -> float:
        """Time paid for until `ended_ms`."""
        gone_ms = math.inf if self.gone_ms is None else self.gone_ms
        return max(0.0, min(gone_ms, ended_ms) - self.started_ms)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of replicas from a moment on."""

    at_ms: float
    ready: int
    starting: int
    draining: int


@dataclass(slots=True)
class Record:
    """The outcome of one request: its times, or why it was dropped."""

    request: Request
    timing: Timing
    dropped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    fleet: Fleet
    records: Many[Record]
    counts: Many[Count]  # one for each change
    replica_ms: float  # from start to gone, of all replicas
    ended_ms: float
    prompt_tokens: int  # looked up in the prefix cache
    cached_tokens: int  # found there
    preemptions: int


def simulate(fleet: Fleet, requests: Many[Request]) -> Outcome:
    """Serves every request that the gateway admits. The same input gives the same outcome.

    It begins with the minimum number of replicas, all ready.
    """
    run = _Run(fleet)
    for request, sequence in zip(
        requests, sequences(requests, fleet.limits.block_size), strict=True
    ):
        run.arrive(request, sequence)
    return run.finish()


class _Run:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.replicas: list[Replica] = []
        self.gone: list[Replica] = []
        self.records: list[Record] = []
        self.counts: list[Count] = []
        self._router = ROUTERS[fleet.routing]()
        self._autoscaler = Autoscaler(fleet.scaling)
        self._in_flight: dict[Sequence, tuple[Record, Replica]] = {}
        self._interval_ms = fleet.scaling.interval_s * 1000
        self._next_evaluation_ms = self._interval_ms
        for _ in range(fleet.scaling.min_replicas):
            self._start(0.0, ready_ms=0.0)
        self._count(0.0)

    def arrive(self, request: Request, sequence: Sequence) -> None:
        now_ms = request.arrived_ms
        self._evaluate_until(now_ms)
        self._run_until(now_ms)
        record = Record(request, Timing(now_ms))
        self.records.append(record)
        ready = self._ready(now_ms)
        record.dropped = self._refusal(request, ready)
        if record.dropped is None:
            replica = self._router.pick(ready, request)
            self._in_flight[sequence] = (record, replica)
            replica.engine.enter(sequence, now_ms)

    def finish(self) -> Outcome:
        while self._in_flight:
            self._evaluate_until(self._next_evaluation_ms)
            self._run_until(self._next_evaluation_ms)
        every_one = [*self.gone, *self.replicas]
        last_arrival_ms = self.records[-1].request.arrived_ms if self.records else 0.0
        ended_ms = max([last_arrival_ms, *(one.last_answer_ms for one in every_one)])
        counters = [one.engine.scheduler.counters for one in every_one]
        return Outcome(
            fleet=self.fleet,
            records=self.records,
            counts=[count for count in self.counts if count.at_ms <= ended_ms],
            replica_ms=sum(one.cost_ms(ended_ms) for one in every_one),
            ended_ms=ended_ms,
            prompt_tokens=sum(one.prefix_cache_queries for one in counters),
            cached_tokens=sum(one.prefix_cache_hits for one in counters),
            preemptions=sum(one.preemptions for one in counters),
        )

    def _evaluate_until(self, now_ms: float) -> None:
        while self._next_evaluation_ms <= now_ms:
            at_ms = self._next_evaluation_ms
            self._next_evaluation_ms += self._interval_ms
            self._run_until(at_ms)
            self._remove_drained()
            staying = [one for one in self.replicas if one.drains_from_ms is None]
            in_flight = sum(one.in_flight for one in self.replicas)
            wanted = self._autoscaler.wanted(at_ms / 1000, in_flight, len(staying))
            for _ in range(wanted - len(staying)):
                self._start(at_ms, ready_ms=at_ms + self.fleet.startup_s * 1000)
            for one in staying[wanted:]:  # the newest ones, as Nomad does
                one.drains_from_ms = at_ms
            self._remove_drained()
            self._count(at_ms)

    def _run_until(self, now_ms: float) -> None:
        for one in self.replicas:
            one.engine.run_until(now_ms)

    def _ready(self, now_ms: float) -> list[Replica]:
        return [
            one for one in self.replicas if one.ready_ms <= now_ms and one.drains_from_ms is None
        ]

    def _refusal(self, request: Request, ready: list[Replica]) -> str | None:
        if not ready:
            return NO_REPLICA
        if sum(one.in_flight for one in ready) >= self.fleet.request_limit * len(ready):
            return OVER_LIMIT
        if request.input_tokens + request.output_tokens > self.fleet.max_model_len:
            return TOO_LONG
        return None

    def _start(self, now_ms: float, *, ready_ms: float) -> None:
        engine = Engine(self.fleet.limits, self.fleet.profile, self._deliver)
        number = len(self.replicas) + len(self.gone)
        self.replicas.append(
            Replica(number=number, started_ms=now_ms, ready_ms=ready_ms, engine=engine)
        )

    def _deliver(self, output: Output, now_ms: float) -> None:
        record, replica = self._in_flight[output.sequence]
        if output.index == 0:
            record.timing.first_token_ms = now_ms
        if output.last:
            record.timing.finished_ms = now_ms
            replica.last_answer_ms = now_ms
            del self._in_flight[output.sequence]

    def _remove_drained(self) -> None:
        for one in list(self.replicas):
            if one.drains_from_ms is not None and one.in_flight == 0:
                one.gone_ms = max(one.last_answer_ms, one.drains_from_ms)
                self.replicas.remove(one)
                self.gone.append(one)

    def _count(self, at_ms: float) -> None:
        ready = len(self._ready(at_ms))
        draining = sum(one.drains_from_ms is not None for one in self.replicas)
        count = Count(at_ms, ready, len(self.replicas) - ready - draining, draining)
        if not self.counts or replace(self.counts[-1], at_ms=at_ms) != count:
            self.counts.append(count)
