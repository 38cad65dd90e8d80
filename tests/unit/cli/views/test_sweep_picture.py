"""The picture and the table of a sweep, drawn for models of the example fleet."""

from __future__ import annotations

import re
from functools import cache
from io import StringIO
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.transforms import Bbox
from rich.console import Console

from cli.views.label_room import LabelRoom, boxes_around
from cli.views.sweep_picture import picture
from cli.views.sweep_table import sweep_table
from slipway.config.fleet import FleetSettings
from slipway.inputs import load_inputs
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.layouts import describe_layout
from slipway.planner.fleet.sweep import Sweep, cheapest_of_others, declared_front, sweep
from tests.unit.plan.samples import ROOT

MODELS = (
    "mixtral-8x7b",
    *(
        pytest.param(name, marks=pytest.mark.thorough)
        for name in ("llama-3-3-70b", "qwen2-5-7b", "gemma-3-27b")
    ),
)


@cache
def swept(name: str) -> Sweep:
    inputs = load_inputs(ROOT, "aws")
    settings = inputs.environment.settings
    assert isinstance(settings, FleetSettings)
    demand = plan_demand(
        inputs.models[name], settings.models[name], inputs.catalog.models, inputs.traces
    )
    assert isinstance(demand, Demand)
    return sweep(demand, inputs.catalog)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def drawn(name: str) -> Figure:
    figure = picture(swept(name))
    figure.draw_without_rendering()
    return figure


def table(name: str) -> str:
    written = StringIO()
    Console(file=written, width=200).print(sweep_table(swept(name)))
    return written.getvalue()


def labels(figure: Figure) -> list[Bbox]:
    return [text.get_window_extent() for text in figure.axes[0].texts]


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    """Scoped to the module, so that all tests of a model run in a row and it is drawn once per
    worker."""
    model: str = request.param
    return model


def spots(figure: Figure) -> list[Bbox]:
    """A box around every point, half its size: its centre must stay visible."""
    axes, found = figure.axes[0], []
    for line in axes.lines:
        if line.get_marker() != "None" and len(line.get_xydata()) == 1:
            (x, y), half = axes.transData.transform(line.get_xydata())[0], line.get_markersize() / 4
            found.append(Bbox.from_extents(x - half, y - half, x + half, y + half))
    return found


def test_no_label_covers_another_or_a_point_or_leaves_the_frame(name: str) -> None:
    figure = drawn(name)
    frame, boxes, points = figure.axes[0].get_window_extent(), labels(figure), spots(figure)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert not any(box.overlaps(point) for box, point in product(boxes, points))
    assert all(frame.containsx(box.x0) and frame.containsx(box.x1) for box in boxes)
    assert all(frame.containsy(box.y0) and frame.containsy(box.y1) for box in boxes)


def test_every_point_that_the_table_lists_is_named(name: str) -> None:
    found = swept(name)
    listed = [*declared_front(found), *cheapest_of_others(found)]
    names = [text.get_text() for text in drawn(name).axes[0].texts]
    for point in listed:
        bought = f"{point.nodes} x {point.instance}"
        names.remove(f"{bought}\n{point.replicas} x {describe_layout(point.layout)}")
    assert names == [f"goal: {found.goal_answer_s:.1f} s"]


def test_the_legend_lies_beside_the_points_and_the_goal_is_marked(name: str) -> None:
    figure, found = drawn(name), swept(name)
    (legend,), axes = figure.legends, figure.axes[0]
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert found.goal_answer_s is not None
    low, high = axes.get_xlim()
    assert low < found.goal_answer_s < high
    assert any(found.goal_answer_s in line.get_xdata() for line in axes.lines)


def test_no_two_accelerators_look_alike(name: str) -> None:
    (legend,), found = drawn(name).legends, swept(name)
    handles = zip(legend.get_texts(), legend.legend_handles, strict=True)
    accelerators = {point.accelerator for point in found.points if point.as_declared}
    colours = {
        text.get_text(): handle.get_color()  # type: ignore[union-attr]
        for text, handle in handles
        if text.get_text() in accelerators
    }
    assert colours.keys() >= accelerators
    assert len(set(colours.values())) == len(colours)


def test_axes_are_logarithmic_and_say_their_units() -> None:
    axes = drawn("qwen2-5-7b").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert " s " in axes.get_xlabel()
    assert "whole instances to buy" in axes.get_ylabel()
    assert "USD per hour" in axes.get_ylabel()
    assert "oldest price of 2026-" in axes.get_ylabel()


def test_every_precision_has_a_shape_of_its_own() -> None:
    (legend,), found = drawn("qwen2-5-7b").legends, swept("qwen2-5-7b")
    handles = zip(legend.get_texts(), legend.legend_handles, strict=True)
    shapes = {
        text.get_text(): handle.get_marker()  # type: ignore[union-attr]
        for text, handle in handles
        if "weights" in text.get_text()
    }
    assert len(shapes) == len(set(shapes.values())) == 6
    assert len({point.precision for point in found.points}) == 6


def test_the_table_marks_every_row_of_another_precision_and_says_what_that_means() -> None:
    text = table("llama-3-3-70b")
    rows = [line.split() for line in text.splitlines() if re.match(r" \d+ x ", line)]
    marked = [row for row in rows if any(cell.endswith("*") for cell in row)]
    assert 0 < len(marked) < len(rows)
    assert rows[-len(marked) :] == marked, "the declared precision comes first"
    assert "fp8" in rows[0]
    assert "Its answers differ" in text


def test_a_label_goes_where_nothing_is() -> None:
    frame = np.array([0.0, 0.0, 100.0, 100.0])
    left = np.array([[0.0, 0.0, 60.0, 100.0]])
    room = LabelRoom(frame=frame, taken=left, barred=left[:0], marker=2.0)
    at = np.array([50.0, 50.0])
    placed = room.take(at, 10, 4)
    assert placed is not None
    assert placed.centre[0] - 5 >= 60
    full = LabelRoom(frame=frame, taken=boxes_around(at[None], 50.0), barred=left[:0], marker=2.0)
    assert full.take(at, 10, 4) is None
