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

from cli.views.label_room import Boxes, LabelRoom, boxes_along, boxes_around
from slipway.plan.figures import Precision
from slipway.planner.fleet.layouts import describe_layout
from slipway.planner.fleet.sweep import Point, Sweep, cheapest_of_others, declared_front
from slipway.planner.quantization import KV_BYTES, SCHEMES, describe_precision
from slipway.planner.reports.price_date import oldest_price

# For all kinds of colour vision: P. Okabe and M. Ito, "Color Universal Design", 2008, and then
# P. Tol's muted colours ("Colour Schemes", SRON/EPS/TN/09-002) that differ from those.
_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"),
    *("#332288", "#882255", "#DDCC77", "#999933"),
)
_DARK, _GREY, _GOAL = "#333333", "#555555", "#D55E00"
# By weights, the widest first; the second of a pair is with FP8 KV.
_MARKERS = (("o", "*"), ("s", "D"), ("^", "v"), ("P", "X"))
_GROWTH = {"*": 1.5, "D": 0.85}  # to look as large as the others
_SIZE_INCHES = (12.0, 8.0)
_DOTS_PER_INCH = 130
_PIXELS = _DOTS_PER_INCH / 72  # of a typographic point
_FONT_POINTS = 8.5
_MARKER_POINTS, _SMALL_MARKER_POINTS = 8.0, 3.5


def picture(found: Sweep) -> Figure:
    """Cost against answer time, both logarithmic; `found` has points.

    Colours are accelerators, shapes precisions. Large points are those that the table lists, each
    labelled "nodes x instance, replicas x layout": the declared precision's front, joined by a
    line, and the cheapest of each other precision. Small points are beaten, hollow ones miss the
    goal. The cost is that of whole instances.
    """
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    look = _look([*_listed(found), *_beaten(found)])
    _set_axes(axes, found)
    lines = [*_draw_front(axes, found), *_draw_goal(axes, found)]
    _draw_points(axes, found, look)
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
    """Limits around what the table lists and the goal, with room for labels on the left of the
    front; beaten points far away are left out."""
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="time of a whole answer: TTFT + output tokens x TPOT, in s (estimate)",
        ylabel="whole instances to buy for the declared load, in USD per hour on demand\n"
        f"(oldest price of {oldest_price([*_listed(found), *_beaten(found)])})",
        title=f"{found.model}: cost against latency",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, color="#eeeeee")
    axes.set_axisbelow(True)
    seconds, costs = zip(*(_position(each) for each in _listed(found)), strict=True)
    axes.set_xlim(min(seconds) / 2.2, 1.7 * max(*seconds, found.goal_answer_s or 0.0))
    axes.set_ylim(min(costs) / 2, max(costs) * 1.5)


def _listed(found: Sweep) -> list[Point]:
    """What the table lists."""
    return [*declared_front(found), *cheapest_of_others(found)]


def _beaten(found: Sweep) -> list[Point]:
    """The declared precision's other points. Those of other precisions are too many to draw."""
    return [point for point in found.points if point.as_declared and not point.pareto]


def _draw_front(axes: Axes, found: Sweep) -> Iterator[Line2D]:
    if front := declared_front(found):
        yield from axes.plot(
            [point.answer_s for point in front],
            [point.usd_per_hour.value for point in front],
            color=_DARK,
            linewidth=1.5,
            zorder=2.2,
            label="not beaten, as declared",
        )


def _draw_goal(axes: Axes, found: Sweep) -> Iterator[Line2D]:
    if found.goal_answer_s is None:
        return
    label = f"TTFT and TPOT at the goal: {found.goal_answer_s:.1f} s"
    axes.annotate(
        f"goal: {found.goal_answer_s:.1f} s",
        (found.goal_answer_s, 0.99),
        xycoords=axes.get_xaxis_transform(),
        xytext=(3.0, 0.0),
        textcoords="offset points",
        color=_GOAL,
        fontsize=_FONT_POINTS,
        rotation="vertical",
        verticalalignment="top",
    )
    yield axes.axvline(found.goal_answer_s, color=_GOAL, linestyle="--", label=label)


def _draw_points(axes: Axes, found: Sweep, look: _Look) -> None:
    for point in _beaten(found):
        _draw_point(axes, point, look, size=_SMALL_MARKER_POINTS, alpha=0.35, zorder=2.1)
    for point in _listed(found):
        _draw_point(axes, point, look, size=_MARKER_POINTS, alpha=1.0, zorder=3.0)


def _draw_point(
    axes: Axes, point: Point, look: _Look, *, size: float, alpha: float, zorder: float
) -> None:
    colour, marker = look.colours[point.accelerator], look.markers[point.precision]
    axes.plot(
        *_position(point),
        linestyle="none",
        marker=marker,
        markersize=size * _GROWTH.get(marker, 1.0),
        markerfacecolor="none" if point.meets_goal is False else colour,
        markeredgecolor="black" if point.pareto and point.as_declared else colour,
        markeredgewidth=0.8,
        alpha=alpha,
        zorder=zorder,
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
        entry("in the table: nodes x instance,", "o", color=_DARK, markersize=_MARKER_POINTS),
        entry("  replicas x layout"),
        entry("  grey label: cheapest of its precision"),
        entry("beaten, as declared", "o", color=_DARK, markersize=_SMALL_MARKER_POINTS),
        entry("misses the goal", "o", color=_DARK, markerfacecolor="none"),
        *lines,
    ]
    legend = figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)
    for text in legend.get_texts():
        if text.get_text() in {"accelerator", "precision", "points"}:
            text.set_fontweight("bold")


def _draw_labels(axes: Axes, found: Sweep) -> None:
    """What to buy for every point that the table lists, as far as there is room."""
    room = _room(axes, found)
    for point in _listed(found):
        label = axes.text(
            *(0, 0, _label(point)),
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


def _label(point: Point) -> str:
    return f"{point.nodes} x {point.instance}\n{point.replicas} x {describe_layout(point.layout)}"


def _room(axes: Axes, found: Sweep) -> LabelRoom:
    """The room that points and lines leave to the labels."""
    listed, beaten = _listed(found), _beaten(found)
    large = boxes_around(_pixels(axes, listed), _MARKER_POINTS / 2 * _PIXELS)
    small = boxes_around(_pixels(axes, beaten), _SMALL_MARKER_POINTS / 2 * _PIXELS)
    front = [boxes_along(*ends) for ends in pairwise(_pixels(axes, declared_front(found)))]
    frame = axes.get_window_extent().get_points()
    texts = _texts(axes)
    return LabelRoom(
        frame=frame.ravel(),
        taken=np.vstack([large, small, texts, _goal(axes, found), *front]),
        barred=np.vstack([large, texts]),
        marker=_MARKER_POINTS / 2 * _PIXELS,
    )


def _goal(axes: Axes, found: Sweep) -> Boxes:
    """The goal's line, if there is a goal."""
    if found.goal_answer_s is None:
        return np.empty((0, 4))
    ((_, low), (_, high)) = axes.get_window_extent().get_points()
    x = axes.transData.transform((found.goal_answer_s, 1.0))[0]
    return boxes_along(np.array([x, low]), np.array([x, high]))


def _texts(axes: Axes) -> Boxes:
    extents = [text.get_window_extent().get_points().ravel() for text in axes.texts]
    return np.array(extents).reshape(-1, 4)


def _pixels(axes: Axes, points: Sequence[Point]) -> Boxes:
    return np.array([axes.transData.transform(_position(point)) for point in points]).reshape(-1, 2)
