"""A sweep as a picture: cost against answer time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import IdentityTransform

from slipway.cli.views.label_room import Boxes, LabelRoom, boxes_along, boxes_around
from slipway.plan.figures import Precision
from slipway.planner.fleet.layouts import describe
from slipway.planner.fleet.sweep import Point, Sweep, cheapest_of_others, declared_front
from slipway.planner.memory.quantization import KV_BYTES, SCHEMES
from slipway.planner.memory.quantization import describe as describe_precision

# For all kinds of colour vision: P. Okabe and M. Ito, "Color Universal Design", 2008.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_DARK, _GREY, _LIGHT, _GOAL = "#333333", "#555555", "#bbbbbb", "#D55E00"
# By weights, the widest first; the second of a pair is with FP8 KV.
_MARKERS = (("o", "*"), ("s", "D"), ("^", "v"), ("P", "X"))
_GROWTH = {"*": 1.5, "D": 0.85}  # to look as large as the others
_SIZE_INCHES = (11.0, 7.0)
_DOTS_PER_INCH = 130
_PIXELS = _DOTS_PER_INCH / 72  # of a typographic point
_FONT_POINTS = 8.5
_MARKER_POINTS, _SMALL_MARKER_POINTS = 8.0, 3.5


def picture(found: Sweep) -> Figure:
    """Cost against answer time, both logarithmic; `found` has points.

    Colours are accelerators, shapes precisions. Large points are those that no other one beats,
    joined by a line for each precision, the declared one's thick; what the table lists is labelled
    "replicas x layout". Hollow points miss the goal.
    """
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    look = _look(_drawn(found))
    _set_axes(axes, found)
    lines = [*_draw_fronts(axes, found), *_draw_goal(axes, found)]
    _draw_points(axes, _drawn(found), look)
    _draw_legend(figure, look, lines)
    figure.draw_without_rendering()  # fixes all positions, which the labels need
    figure.set_layout_engine("none")
    _draw_labels(axes, found)
    return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Colours by accelerator, shapes by precision."""

    colours: Mapping[str, str]
    markers: Mapping[Precision, str]


def _look(points: Sequence[Point]) -> _Look:
    accelerators = sorted({point.accelerator for point in points})
    precisions = {point.precision for point in points}
    widest_first = sorted(precisions, key=_narrowness)
    shapes = dict(zip(dict.fromkeys(each.weights for each in widest_first), _MARKERS, strict=False))
    return _Look(
        colours=dict(zip(accelerators, cycle(_COLOURS), strict=False)),
        markers={each: shapes[each.weights][each.kv == "fp8"] for each in widest_first},
    )


def _narrowness(precision: Precision) -> tuple[int, str, int]:
    return -SCHEMES[precision.weights].bits, precision.weights, -KV_BYTES[precision.kv]


def _position(point: Point) -> tuple[float, float]:
    return point.answer_s, point.usd_per_hour.value


def _set_axes(axes: Axes, found: Sweep) -> None:
    """Limits around the front and the goal; points far away are left out."""
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="time of a whole answer: TTFT + output tokens x TPOT, in s (estimate)",
        ylabel="cost of the declared load, in USD per hour (on demand)",
        title=f"{found.model}: cost against latency",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, color="#eeeeee")
    axes.set_axisbelow(True)
    seconds, costs = zip(*(_position(each) for each in found.points if each.pareto), strict=True)
    axes.set_xlim(min(seconds) / 1.3, 1.5 * max(*seconds, found.goal_answer_s or 0.0))
    axes.set_ylim(min(costs) / 1.7, max(costs) * 1.4)


def _drawn(found: Sweep) -> list[Point]:
    """Without the many dominated points of precisions other than the declared one."""
    return [point for point in found.points if point.pareto or point.as_declared]


def _draw_fronts(axes: Axes, found: Sweep) -> Iterator[Line2D]:
    """A line for each precision; returns those that the legend explains."""
    for precision, front in _fronts(found).items():
        declared = precision == found.declared
        (line,) = axes.plot(
            [point.answer_s for point in front],
            [point.usd_per_hour.value for point in front],
            color=_DARK if declared else _LIGHT,
            linewidth=1.8 if declared else 0.8,
            zorder=2.2 if declared else 2.1,
            label="not beaten, as declared" if declared else "not beaten, other precision",
        )
        yield line


def _fronts(found: Sweep) -> dict[Precision, list[Point]]:
    fronts: dict[Precision, list[Point]] = {}
    for point in found.points:
        if point.pareto:
            fronts.setdefault(point.precision, []).append(point)
    return fronts


def _draw_goal(axes: Axes, found: Sweep) -> Iterator[Line2D]:
    if found.goal_answer_s is not None:
        label = f"TTFT and TPOT at the goal: {found.goal_answer_s:.1f} s"
        yield axes.axvline(found.goal_answer_s, color=_GOAL, linestyle="--", label=label)


def _draw_points(axes: Axes, points: Sequence[Point], look: _Look) -> None:
    for point in points:
        colour, marker = look.colours[point.accelerator], look.markers[point.precision]
        axes.plot(
            *_position(point),
            linestyle="none",
            marker=marker,
            markersize=(_MARKER_POINTS if point.pareto else _SMALL_MARKER_POINTS)
            * _GROWTH.get(marker, 1.0),
            markerfacecolor="none" if point.meets_goal is False else colour,
            markeredgecolor="black" if point.pareto and point.as_declared else colour,
            markeredgewidth=0.8,
            alpha=1.0 if point.pareto else 0.35,
            zorder=2.3 + point.pareto + point.as_declared / 2,
        )


def _draw_legend(figure: Figure, look: _Look, lines: Sequence[Line2D]) -> None:
    """Beside the axes, where there are no points."""

    def entry(label: str, marker: str = "", **style: Any) -> Line2D:
        return Line2D([], [], linestyle="none", marker=marker, label=label, **style)

    handles = [
        entry("accelerator"),
        *(entry(name, "o", color=colour) for name, colour in look.colours.items()),
        entry("precision"),
        *(
            entry(
                describe_precision(precision),
                marker,
                color=_DARK,
                markersize=_MARKER_POINTS * 0.8 * _GROWTH.get(marker, 1.0),
            )
            for precision, marker in look.markers.items()
        ),
        entry("points"),
        entry("beaten, as declared", "o", color=_DARK, markersize=_SMALL_MARKER_POINTS),
        entry("misses the goal", "o", color=_DARK, markerfacecolor="none"),
        *{line.get_label(): line for line in lines}.values(),
    ]
    legend = figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)
    for text in legend.get_texts():
        if text.get_text() in {"accelerator", "precision", "points"}:
            text.set_fontweight("bold")


def _draw_labels(axes: Axes, found: Sweep) -> None:
    """Labels for the points in the table, as far as there is room."""
    room = _room(axes, found)
    for point in [*declared_front(found), *cheapest_of_others(found)]:
        label = axes.text(
            *(0, 0, f"{point.replicas} x {describe(point.layout)}"),
            color="black" if point.as_declared else _GREY,
            fontsize=_FONT_POINTS,
            horizontalalignment="center",
            verticalalignment="center",
            transform=IdentityTransform(),
            zorder=6,
        )
        size, (at,) = label.get_window_extent(), _pixels(axes, [point])
        placed = room.take(at, size.width, size.height)
        if placed is None:
            label.remove()
            continue
        label.set_position(placed.centre)
        begin, end = placed.leader
        axes.add_line(
            Line2D(
                *((begin[0], end[0]), (begin[1], end[1])),
                color=_GREY,
                linewidth=0.6,
                transform=IdentityTransform(),
                zorder=5,
            )
        )


def _room(axes: Axes, found: Sweep) -> LabelRoom:
    """The room that points and lines leave to the labels."""
    large = boxes_around(
        _pixels(axes, [point for point in found.points if point.pareto]),
        _MARKER_POINTS / 2 * _PIXELS,
    )
    small = boxes_around(_pixels(axes, _drawn(found)), _SMALL_MARKER_POINTS / 2 * _PIXELS)
    lines = [
        boxes_along(begin, end)
        for front in _fronts(found).values()
        for begin, end in pairwise(_pixels(axes, front))
    ]
    frame = axes.get_window_extent().get_points()
    if found.goal_answer_s is not None:
        goal = axes.transData.transform((found.goal_answer_s, 1.0))[0]
        lines.append(boxes_along(np.array([goal, frame[0, 1]]), np.array([goal, frame[1, 1]])))
    return LabelRoom(
        frame=frame.ravel(),
        taken=np.vstack([large, small, *lines]),
        barred=large,
        marker=_MARKER_POINTS / 2 * _PIXELS,
    )


def _pixels(axes: Axes, points: Sequence[Point]) -> Boxes:
    return np.array([axes.transData.transform(_position(point)) for point in points])
