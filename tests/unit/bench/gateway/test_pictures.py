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
    for axes, alone in ((hits, 3), (more_hits, 3), (cpu, 2), (more_cpu, 2)):
        one, sixteen = axes.lines
        assert len(one.get_xydata()) == alone  # nobody's processor time where there is no gateway
        assert len(sixteen.get_xydata()) == 2
    assert hits.lines[0].get_xydata().tolist() == [[50.0, 0.0], [50.0, 1.0], [50.0, 2.0]]
    assert cpu.lines[0].get_xydata().tolist() == [[1.0, 1.0], [1.0, 2.0]]
