"""A sweep as a table: cost against latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from slipway.cli.views.tables import plain_table
from slipway.planner.fleet.layouts import describe
from slipway.planner.fleet.sweep import Point, Sweep, cheapest_of_others, declared_front
from slipway.planner.memory.quantization import describe as describe_precision


def sweep_table(found: Sweep) -> RenderableType:
    """The declared precision's front, and the cheapest point of each other precision, marked."""
    table = plain_table(
        f"{found.model}: no other configuration is both cheaper and faster than these"
        " with at least as many bits"
    )
    table.add_column("instance", no_wrap=True)
    table.add_column("a replica", no_wrap=True)
    table.add_column("weights", no_wrap=True)
    table.add_column("KV", no_wrap=True)
    for heading in ("replicas", "USD/h", "USD/Mtok", "TTFT ms", "TPOT ms", "answer s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("goal")
    for point in declared_front(found):
        table.add_row(*_row(point))
    table.add_section()
    others = cheapest_of_others(found)
    for point in others:
        table.add_row(*_row(point))
    return Group(table, *(Text(line) for line in _notes(found, others)))


def _row(point: Point) -> tuple[str, ...]:
    goal = {None: "-", True: "met", False: "missed"}[point.meets_goal]
    mark = "" if point.as_declared else "*"
    return (
        point.instance,
        f"{point.layout.devices} {point.accelerator} {describe(point.layout)}",
        point.precision.weights + mark,
        point.precision.kv,
        str(point.replicas),
        f"{point.usd_per_hour.value:.2f}",
        f"{point.usd_per_million_output_tokens.value:.2f}",
        f"~{point.ttft_ms.value:.0f}",
        f"~{point.tpot_ms.value:.1f}",
        f"~{point.answer_s:.1f}",
        goal,
    )


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
