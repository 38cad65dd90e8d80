"""What the table and the picture of `slipway bench` show."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from cli.bench.document import bench_document
from cli.bench.measurement import Measured, Measurement
from cli.views.bench_picture import draw_bench
from cli.views.bench_table import bench_table
from tests.schemas import validate
from tests.unit.cli.bench.test_bench_sizing import seen
from tests.unit.cli.views.figures import WIDTHS, shown
from tests.unit.plan.samples import dev_plan

WIDTH = 160


def document(*measured: Measured, simulated: bool = False) -> dict[str, Any]:
    planned = next(model for model in dev_plan().models if model.name == "smollm2")
    found = bench_document(
        Measurement(measured=list(measured)),
        environment="dev",
        model="smollm2",
        simulated=simulated,
        gateway="http://127.77.0.32:8080",
        source="prompts.txt, 9 prompts",
        planned=planned,
        sizing=None,
    )
    validate(found, "bench")
    return found


def with_errors(measured: Measured) -> Measured:
    figures = dataclasses.replace(
        measured.figures,
        answered=7,
        errors={"HTTP 503": 2, "timeout": 1},
        said={"HTTP 503": "busy", "timeout": "no end within 300 s"},
    )
    return dataclasses.replace(measured, figures=figures)


def test_errors_are_counted_by_kind_with_what_was_said() -> None:
    table = shown(bench_table(document(with_errors(seen(8, 3)))), WIDTH)
    assert re.search(r"7 of 10 .* 3! *$", table, re.MULTILINE)
    assert "! misses the goal" in table
    assert "Triton gRPC, 8 clients: 2 x HTTP 503: busy" in table
    assert "Triton gRPC, 8 clients: 1 x timeout: no end within 300 s" in table


@pytest.mark.parametrize("width", WIDTHS)
def test_no_figure_is_cut_in_a_narrow_terminal(width: int) -> None:
    table = shown(bench_table(document(seen(900, 1234.5, ttft=98765), seen(1, 3))), width)
    for figure in ("49,382 / 98,765! / 197,530", "1,234.50", "123,450.0", "p95 at most 2,000"):
        assert figure in table


def test_a_missed_goal_is_marked_without_colours_too() -> None:
    missed = shown(bench_table(document(seen(8, 3, ttft=2001, tpot=150))), WIDTH)
    assert "1,000 / 2,001! / 4,002" in missed
    assert "75.0 / 150.0 / 300.0" in missed
    assert "! misses the goal" in missed
    met = shown(bench_table(document(seen(8, 3, ttft=2000))), WIDTH)
    assert "!" not in met


def test_a_client_that_limits_the_figures_and_an_interruption_are_told() -> None:
    limited = dataclasses.replace(seen(8, 3), limited="its thread used 93% of a processor")
    interrupted = dataclasses.replace(seen(1, 3), interrupted=True, dropped=1)
    table = shown(bench_table(document(limited, interrupted)), WIDTH)
    assert "8 clients: the client itself limits these figures: its thread used 93%" in table
    assert "1 client: interrupted, without 1 request in flight" in table


def test_a_step_without_an_answer_has_no_times_and_can_be_drawn(tmp_path: Path) -> None:
    unanswered = seen(8, 0)
    figures = dataclasses.replace(unanswered.figures, ttft_ms=None, tpot_ms=None)
    found = document(seen(1, 3), dataclasses.replace(unanswered, figures=figures), simulated=True)
    assert "0 of 10" in shown(bench_table(found), WIDTH)
    draw_bench(found, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
