"""A sweep as a table: cost against latency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from cli.views.tables import FirstThatFits, plain_table
from slipway.planner.fleet.layouts import describe_layout
from slipway.planner.fleet.sweep import Point, Sweep, cheapest_of_others, declared_front
from slipway.planner.quantization import describe_precision
from slipway.planner.reports.price_date import oldest_price

_Columns = Mapping[str, Callable[[Point], str]]


def sweep_table(found: Sweep) -> RenderableType:
    """The declared precision's front, and the cheapest point of each other precision, marked. Where
    a row does not fit into a line, it has two."""
    front, others = declared_front(found), cheapest_of_others(found)
    sections = [front, others]
    price = _price([*front, *others])
    one_line = {**_CONFIGURATION, **price, **_FIGURES}
    two_lines = {**_CONFIGURATION_ON_TWO_LINES, **_stacked(price), **_FIGURES}
    return Group(
        FirstThatFits(
            _table(found.model, one_line, sections), _table(found.model, two_lines, sections)
        ),
        *(Text(line) for line in _notes(found, [*front, *others])),
    )


def _table(model: str, columns: _Columns, sections: Iterable[Sequence[Point]]) -> Table:
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


def _price(points: Iterable[Point]) -> _Columns:
    """What must be bought, and the replicas' share of it if that of any point is less."""
    shares = {"share": _share} if _any_share(points) else {}
    return {"USD/h": _usd_per_hour, **shares}


def _stacked(columns: _Columns) -> _Columns:
    """One column, with a line for each of these."""
    return {"\n".join(columns): lambda point: "\n".join(cell(point) for cell in columns.values())}


def _usd_per_hour(point: Point) -> str:
    return f"{point.usd_per_hour.value:.2f}"


def _share(point: Point) -> str:
    """Empty where it is all that is bought."""
    share = f"{point.share_usd_per_hour.value:.2f}"
    return "" if share == _usd_per_hour(point) else share


def _any_share(points: Iterable[Point]) -> bool:
    return any(map(_share, points))


def _bought(point: Point) -> str:
    return f"{point.nodes} x {point.instance}"


def _replica(point: Point) -> str:
    return f"{point.layout.devices} {point.accelerator} {describe_layout(point.layout)}"


def _weights(point: Point) -> str:
    return point.precision.weights + ("" if point.as_declared else "*")


def _goal(point: Point) -> str:
    return {None: "-", True: "met", False: "missed"}[point.meets_goal]


_FIGURES: _Columns = {
    "USD/\nMtok": lambda point: f"{point.usd_per_million_output_tokens.value:.2f}",
    "TTFT\nms": lambda point: f"~{point.ttft_ms.value:.0f}",
    "TPOT\nms": lambda point: f"~{point.tpot_ms.value:.1f}",
    "answer\ns": lambda point: f"~{point.answer_s:.1f}",
    "goal": _goal,
}
_CONFIGURATION: _Columns = {
    "instances": _bought,
    "replicas": lambda point: str(point.replicas),
    "a replica": _replica,
    "weights": _weights,
    "KV": lambda point: point.precision.kv,
}
_CONFIGURATION_ON_TWO_LINES: _Columns = {
    "instances\n  replicas x replica": lambda point: (
        f"{_bought(point)}\n  {point.replicas} x {_replica(point)}"
    ),
    "weights\nKV": lambda point: f"{_weights(point)}\n{point.precision.kv}",
}
_WORDS = {"instances", "a replica", "weights", "KV", "goal", *_CONFIGURATION_ON_TWO_LINES}


def _notes(found: Sweep, listed: Sequence[Point]) -> Iterator[str]:
    front = sum(point.pareto for point in found.points)
    missed = sum(point.meets_goal is False for point in found.points)
    yield (
        f"{len(found.points) + len(found.refused)} tried: {front} on the fronts of all precisions,"
        f" of which {len(listed)} are shown; {missed} miss the goal, {len(found.refused)} cannot"
        " run the model (--json shows all)"
    )
    if listed:
        shares = "; share: what the replicas use of them, in USD/h" if _any_share(listed) else ""
        yield (
            "USD/h and USD/Mtok: on-demand prices of the whole instances that must be bought"
            f"{shares}. The oldest price is of {oldest_price(listed)}."
        )
    if not all(point.as_declared for point in listed):
        yield (
            f"* the cheapest with a precision other than {describe_precision(found.declared)}, the"
            " declared one. Its answers differ: measure their quality first. Only the model's file"
            " selects it (engine.quantization, engine.kv_cache_dtype)."
        )
