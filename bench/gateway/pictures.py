"""The runs as one picture: hits and processor time of each gateway, for each trace."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bench.gateway.contender import DIRECT
from bench.gateway.measurement import Run
from bench.gateway.traces import TRACES

# For all kinds of colour vision: P. Okabe and M. Ito, "Color Universal Design", 2008.
_LOOKS = (("#0072B2", "o"), ("#E69F00", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#CC79A7", "v"))
_WIDTH_INCHES, _ROW_INCHES = 2.1, 0.3  # of one trace, of one gateway


def picture(runs: Sequence[Run], contenders: Sequence[str], title: str) -> Figure:
    """A column for each trace; medians of the pairs, one mark for each number in flight."""
    traces = [name for name in TRACES if any(run.trace == name for run in runs)]
    looks = dict(zip(sorted({run.concurrency for run in runs}), _LOOKS, strict=False))
    size = (2.4 + _WIDTH_INCHES * len(traces), 2.4 + 2 * _ROW_INCHES * len(contenders))
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    hits, cpu = figure.subplots(2, len(traces), squeeze=False, sharey=True)
    for column, trace in enumerate(traces):
        here = [run for run in runs if run.trace == trace]
        _draw(hits[column], here, contenders, looks, lambda run: 100 * run.hit_ratio)
        through = [run for run in here if run.contender != DIRECT]
        _draw(cpu[column], through, contenders, looks, lambda run: run.gateway_cpu_ms)
        hits[column].set(title=trace, xlim=(-5, 105))
        cpu[column].set_xscale("log")
        cpu[column].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        cpu[column].xaxis.set_major_formatter("{x:g}")
        cpu[column].xaxis.set_minor_formatter(NullFormatter())
    hits[0].set_yticks(range(len(contenders)), contenders)
    hits[0].invert_yaxis()
    for first in (hits[0], cpu[0]):
        for label in first.get_yticklabels():
            label.set_fontweight("bold" if label.get_text().startswith("slipway") else "normal")
    hits[len(traces) // 2].set_xlabel("cache hits, % of prompt tokens")
    cpu[len(traces) // 2].set_xlabel("gateway's processor time per request, ms")
    handles, labels = hits[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def _draw(
    axes: Axes,
    runs: Sequence[Run],
    contenders: Sequence[str],
    looks: Mapping[int, tuple[str, str]],
    value: Callable[[Run], float],
) -> None:
    """The marks of each number in flight, by colour and shape."""
    for concurrency, (colour, marker) in looks.items():
        here = [run for run in runs if run.concurrency == concurrency]
        rows = [
            row for row, name in enumerate(contenders) if any(r.contender == name for r in here)
        ]
        medians = [
            statistics.median(value(run) for run in here if run.contender == contenders[row])
            for row in rows
        ]
        axes.plot(
            medians,
            rows,
            linestyle="none",
            marker=marker,
            color=colour,
            alpha=0.8,
            label=f"{concurrency} in flight",
        )
    axes.grid(visible=True, color="#eeeeee")
    axes.set_axisbelow(True)
