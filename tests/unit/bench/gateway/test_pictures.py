"""The picture of bench/gateway."""

from __future__ import annotations

import dataclasses

from bench.gateway.contender import DIRECT
from bench.gateway.contenders import CACHE_AWARE, OURS_AFFINITY
from bench.gateway.pictures import picture
from tests.unit.bench.gateway.runs import RUN

NAMES = (DIRECT, OURS_AFFINITY, CACHE_AWARE)


def test_each_trace_has_its_hits_above_its_processor_times() -> None:
    runs = [
        dataclasses.replace(RUN, contender=name, trace=trace, concurrency=concurrency, pair=pair)
        for name in NAMES
        for trace in ("groups", "uniform")
        for concurrency in (1, 16)
        for pair in (0, 1)
        if name != DIRECT or concurrency == 1
    ]
    drawn = picture(runs, NAMES, "a title")
    drawn.draw_without_rendering()
    hits, more_hits, cpu, more_cpu = drawn.axes
    assert [axes.get_title() for axes in drawn.axes] == ["groups", "uniform", "", ""]
    labels = [label.get_text() for label in hits.get_yticklabels()]
    assert labels == list(NAMES)
    for axes, rows in (
        (hits, [0, 1, 2]),
        (more_hits, [0, 1, 2]),
        (cpu, [1, 2]),
        (more_cpu, [1, 2]),
    ):
        one, sixteen = axes.lines
        assert list(one.get_ydata()) == rows
        assert list(sixteen.get_ydata()) == [1, 2]
    assert list(hits.lines[0].get_xdata()) == [50.0] * 3
    assert list(cpu.lines[0].get_xdata()) == [1.0] * 2
