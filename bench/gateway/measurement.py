"""One run: a trace through one gateway, and what it took."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.gateway.contender import Running
from bench.gateway.load import Address, Answer, answers, encoded
from bench.gateway.processes import processor_ms
from bench.gateway.replicas import MODEL, counted
from bench.gateway.traces import Request, Trace, unrelated


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`hit_ratio` is that of prompt tokens found in the engines' caches, `busiest_share` that of
    requests which the busiest replica answered, and both times of the processor are per request.
    `errors` are numbers of requests by what went wrong."""

    contender: str
    trace: str
    concurrency: int
    pair: int
    ttft_p50_ms: float
    ttft_p95_ms: float
    ttft_p99_ms: float
    hit_ratio: float
    busiest_share: float
    gateway_cpu_ms: float
    client_cpu_ms: float
    seconds: float
    requests: int
    errors: dict[str, int]


def measured(
    running: Running,
    replicas: Sequence[Address],
    trace: Trace,
    *,
    contender: str,
    name: str,
    concurrency: int,
    pair: int,
) -> Run:
    salt = f"{contender}/{name}/{concurrency}/{pair}"
    _send(running.address, (*unrelated(2 * concurrency, salt=salt), *trace.warm_up), concurrency)
    before, gateway_ms = counted(replicas), processor_ms(running.processes)
    client_s, began_s = time.process_time(), time.perf_counter()
    given = _send(running.address, trace.requests, concurrency)
    seconds, client_s = time.perf_counter() - began_s, time.process_time() - client_s
    gateway_ms = processor_ms(running.processes) - gateway_ms
    each = [now - earlier for now, earlier in zip(counted(replicas), before, strict=True)]
    p50_ms, p95_ms, p99_ms = _percentiles([a.ttft_ms for a in given if not a.error])
    return Run(
        contender=contender,
        trace=name,
        concurrency=concurrency,
        pair=pair,
        ttft_p50_ms=p50_ms,
        ttft_p95_ms=p95_ms,
        ttft_p99_ms=p99_ms,
        hit_ratio=_ratio(sum(e.hits for e in each), sum(e.queries for e in each)),
        busiest_share=_ratio(max(e.requests for e in each), sum(e.requests for e in each)),
        gateway_cpu_ms=gateway_ms / len(given),
        client_cpu_ms=client_s * 1e3 / len(given),
        seconds=seconds,
        requests=len(given),
        errors=dict(Counter(answer.error for answer in given if answer.error)),
    )


def _send(address: Address, requests: Sequence[Request], concurrency: int) -> list[Answer]:
    """Encoded before the first one is sent, and without pauses of the garbage collector."""
    ready = [encoded(request, model=MODEL, host=address[0]) for request in requests]
    after = [request.after for request in requests]
    gc.collect()
    gc.disable()
    try:
        return asyncio.run(answers(address, ready, after, concurrency))
    finally:
        gc.enable()


def _percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    """p50, p95, p99; not a number where too few were answered."""
    if len(values) < 2:
        return (float("nan"),) * 3
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
