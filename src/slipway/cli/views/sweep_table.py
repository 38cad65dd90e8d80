"""A sweep as a table: cost against latency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from slipway.cli.views.tables import FirstThatFits, plain_table
from slipway.planner.fleet.layouts import describe
from slipway.planner.fleet.sweep import Point, Sweep, cheapest_of_others, declared_front
from slipway.planner.memory.quantization import describe as describe_precision


def sweep_table(found: Sweep) -> RenderableType:
    """The declared precision's front, and the cheapest point of each other precision, marked. Where
    a row does not fit into a line, it has two."""
    others = cheapest_of_others(found)
    sections = [declared_front(found), others]
    return Group(
        FirstThatFits(
            _table(found.model, _COLUMNS, sections), _table(found.model, _TWO_LINES, sections)
        ),
        *(Text(line) for line in _notes(found, others)),
    )


def _table(
    model: str, columns: Mapping[str, Callable[[Point], str]], sections: Iterable[Sequence[Point]]
) -> Table:
    table = plain_table(
        f"{model}: no other configuration is both cheaper and faster than these"
        " with at least as many bits"
    )
    for heading in columns:
        justify: JustifyMethod = "left" if heading in _WORDS else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    for points in sections:
        for point in points:
            table.add_row(*(cell(point) for cell in columns.values()))
        table.add_section()
    return table


def _replica(point: Point) -> str:
    return f"{point.layout.devices} {point.accelerator} {describe(point.layout)}"


def _weights(point: Point) -> str:
    return point.precision.weights + ("" if point.as_declared else "*")


def _goal(point: Point) -> str:
    return {None: "-", True: "met", False: "missed"}[point.meets_goal]


_FIGURES: Mapping[str, Callable[[Point], str]] = {
    "USD/h": lambda point: f"{point.usd_per_hour.value:.2f}",
    "USD/\nMtok": lambda point: f"{point.usd_per_million_output_tokens.value:.2f}",
    "TTFT\nms": lambda point: f"~{point.ttft_ms.value:.0f}",
    "TPOT\nms": lambda point: f"~{point.tpot_ms.value:.1f}",
    "answer\ns": lambda point: f"~{point.answer_s:.1f}",
    "goal": _goal,
}
_COLUMNS: Mapping[str, Callable[[Point], str]] = {
    "instance": lambda point: point.instance,
    "replicas": lambda point: str(point.replicas),
    "a replica": _replica,
    "weights": _weights,
    "KV": lambda point: point.precision.kv,
    **_FIGURES,
}
_TWO_LINES: Mapping[str, Callable[[Point], str]] = {
    "instance\n  replicas x replica": lambda point: (
        f"{point.instance}\n  {point.replicas} x {_replica(point)}"
    ),
    "weights\nKV": lambda point: f"{_weights(point)}\n{point.precision.kv}",
    **_FIGURES,
}
_WORDS = {"instance", "a replica", "weights", "KV", "goal", *list(_TWO_LINES)[:2]}


def _notes(found: Sweep, others: Sequence[Point]) -> Iterator[str]:
    front = sum(point.pareto for point in found.points)
    missed = sum(point.meets_goal is False for point in found.points)
    yield (
        f"{len(found.points) + len(found.refused)} tried: {front} on the front,"
        f" {missed} miss the goal, {len(found.refused)} cannot run the model (--json shows all)"
    )
    if others:
        yield (
            f"* the cheapest with a precision other than {describe_precision(found.declared)}, the"
            " declared one. Its answers differ: measure their quality first. Only the model's file"
            " selects it (engine.quantization, engine.kv_cache_dtype)."
        )
