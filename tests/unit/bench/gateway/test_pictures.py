"""The picture of bench/gateway."""

from __future__ import annotations

import dataclasses

import numpy as np
from matplotlib.lines import Line2D

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
    for axes, alone in ((hits, 3), (more_hits, 3), (cpu, 2), (more_cpu, 2)):
        one, sixteen = map(marks, axes.lines)
        assert len(one) == alone  # nobody's processor time where there is no gateway
        assert len(sixteen) == 2
    assert marks(hits.lines[0]) == [[50.0, 0.0], [50.0, 1.0], [50.0, 2.0]]
    assert marks(cpu.lines[0]) == [[1.0, 1.0], [1.0, 2.0]]


def marks(line: Line2D) -> list[list[float]]:
    places: list[list[float]] = np.asarray(line.get_xydata()).tolist()
    return places
