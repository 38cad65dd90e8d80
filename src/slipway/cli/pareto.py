"""A sweep as a table and as a picture: cost against latency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipway.planner.fleet.layouts import describe
from slipway.planner.fleet.sweep import Point, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinct without colour vision: P. Okabe and M. Ito, "Color Universal Design", 2008.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = "osD^vP*X<>"  # as many as no two accelerators share with a colour
_SIZE_INCHES = (9.0, 6.0)
_DOTS_PER_INCH = 130
_LABEL_POINTS = 7


def sweep_table(found: Sweep) -> RenderableType:
    """The points that no other one beats."""
    shown = [point for point in found.points if point.pareto]
    table = Table(
        title=f"{found.model}: no other configuration is both cheaper and faster than these",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("instance", no_wrap=True)
    for heading in ("a replica", "replicas", "USD/h", "USD/Mtok", "TTFT ms", "TPOT ms", "answer s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("goal")
    for point in shown:
        table.add_row(*_row(point))
    beaten, refused = len(found.points) - len(shown), len(found.refused)
    rest = f"{beaten} more are beaten by these, {refused} cannot hold the model (--json shows all)"
    return Group(table, Text(rest))


def _row(point: Point) -> tuple[str, ...]:
    goal = {None: "-", True: "met", False: "missed"}[point.meets_goal]
    return (
        point.instance,
        f"{point.layout.devices} {point.accelerator} {describe(point.layout)}",
        str(point.replicas),
        f"{point.usd_per_hour.value:.2f}",
        f"{point.usd_per_million_output_tokens.value:.2f}",
        f"~{point.ttft_ms.value:.0f}",
        f"~{point.tpot_ms.value:.1f}",
        f"~{point.answer_s:.1f}",
        goal,
    )


def draw(found: Sweep, path: Path) -> None:
    """Write the picture as PNG. Filled: within the goal; the line joins what no other beats."""
    import matplotlib as mpl  # noqa: PLC0415 - a second to load, and only sweeps draw

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    front = [point for point in found.points if point.pareto]
    axes.plot(
        [point.answer_s for point in front],
        [point.usd_per_hour.value for point in front],
        color="#666666",
        linewidth=1,
        zorder=1,
    )
    names = sorted({point.accelerator for point in found.points})
    for index, name in enumerate(names):
        own = [point for point in found.points if point.accelerator == name]
        colour = _COLOURS[index % len(_COLOURS)]
        axes.scatter(
            [point.answer_s for point in own],
            [point.usd_per_hour.value for point in own],
            marker=_MARKERS[index % len(_MARKERS)],
            s=40,
            facecolors=[colour if point.meets_goal is not False else "none" for point in own],
            edgecolors=colour,
            zorder=2,
        )
        axes.scatter([], [], marker=_MARKERS[index % len(_MARKERS)], color=colour, label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="time of a whole answer, s (estimate)",
        ylabel="USD per hour for the declared load (on demand)",
        title=f"{found.model}: cost against latency",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=_LABEL_POINTS)
    axes.margins(x=0.1)
    axes.grid(visible=True, which="both", color="#eeeeee", zorder=0)
    _label(axes, front)
    axes.legend(title="hollow: goal missed", frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _label(axes: Axes, front: Sequence[Point]) -> None:
    for index, point in enumerate(front):
        axes.annotate(
            f"{point.replicas} x {describe(point.layout)}",
            (point.answer_s, point.usd_per_hour.value),
            # Below the front, where no point lies; neighbours at two heights.
            xytext=(-4, -4 - _LABEL_POINTS * (index % 2)),
            textcoords="offset points",
            horizontalalignment="right",
            verticalalignment="top",
            fontsize=_LABEL_POINTS,
        )
