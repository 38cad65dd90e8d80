"""Runs as markdown tables: one for each trace, and one for the bars."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from bench.gateway.bars import Verdict
from bench.gateway.contender import DIRECT
from bench.gateway.measurement import Run

HEADINGS = (
    *("in flight", "gateway", "TTFT p50 ms", "p95", "p99", "added p50 ms", "cache hits"),
    *("gateway's CPU ms", "busiest replica", "errors"),
)


def trace_table(runs: Sequence[Run], contenders: Sequence[str]) -> Iterator[str]:
    """Of the runs of one trace, each figure the median of the pairs."""
    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "---|" * len(HEADINGS)
    for concurrency in sorted({run.concurrency for run in runs}):
        here = [run for run in runs if run.concurrency == concurrency]
        direct_ms = {run.pair: run.ttft_p50_ms for run in here if run.contender == DIRECT}
        for contender in contenders:
            if of_it := [run for run in here if run.contender == contender]:
                added = [r.ttft_p50_ms - direct_ms[r.pair] for r in of_it if r.pair in direct_ms]
                cells = (str(concurrency), contender, *_cells(of_it, added))
                yield "| " + " | ".join(cells) + " |"


def bar_table(verdicts: Sequence[Verdict], subject: str) -> Iterator[str]:
    yield f"| {subject} | trace | in flight | measured | bar | met |"
    yield "|---|---|---|---|---|---|"
    words = {True: "yes", False: "**no**", None: "not measured"}
    for each in verdicts:
        measured = "" if each.measured is None else f"{each.measured:.3f}"
        yield (
            f"| {each.what} | {each.trace} | {each.concurrency} | {measured} | {each.limit} |"
            f" {words[each.met]} |"
        )


def _cells(runs: Sequence[Run], added_ms: Sequence[float]) -> tuple[str, ...]:
    def median(value: Callable[[Run], float]) -> float:
        return statistics.median(map(value, runs))

    errors: Counter[str] = Counter()
    for run in runs:
        errors.update(run.errors)
    direct = runs[0].contender == DIRECT
    return (
        *(f"{median(value):.1f}" for value in (_p50, _p95, _p99)),
        "" if direct or not added_ms else f"{statistics.median(added_ms):.2f}",
        f"{median(lambda run: run.hit_ratio):.1%}",
        "" if direct else f"{median(lambda run: run.gateway_cpu_ms):.2f}",
        f"{median(lambda run: run.busiest_share):.0%}",
        ", ".join(f"{count} x {error}" for error, count in sorted(errors.items())) or "0",
    )


def _p50(run: Run) -> float:
    return run.ttft_p50_ms


def _p95(run: Run) -> float:
    return run.ttft_p95_ms


def _p99(run: Run) -> float:
    return run.ttft_p99_ms
