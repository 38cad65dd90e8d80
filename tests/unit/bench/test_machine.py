"""The line above a benchmark's table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.machine import described, measured_on

ROOT = Path(__file__).parents[3]


def test_a_figure_is_divided_by_the_mean_of_both_loops() -> None:
    assert described(1.0, 2.0) == "loop factor 1.50 (1.00 before, 2.00 after)"


def test_the_machine_is_said_with_the_loop_factor() -> None:
    line = measured_on(1.25)
    assert " cores, " in line
    assert "(1.25 before, " in line


def test_the_loop_factor_needs_no_environment() -> None:
    """-I: no package but those of the standard library."""
    command = [sys.executable, "-I", str(ROOT / "bench/machine.py")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(printed.removeprefix("loop factor ")) > 0


def test_every_benchmark_that_names_its_machine_has_timed_the_loop_before() -> None:
    for path in (ROOT / "bench").glob("*.py"):
        text = path.read_text()
        assert "measured_on()" not in text, path.name
        if "measured_on(before)" in text:
            assert "loop_factor()" in text, path.name
