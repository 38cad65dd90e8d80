"""The line above a benchmark's table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import machine
from bench.machine import described, measured_on

ROOT = Path(__file__).parents[3]


def test_a_figure_is_divided_by_the_mean_of_both_loops() -> None:
    assert described(1.0, 2.0) == "loop factor 1.50 (1.00 before, 2.00 after)"


def test_the_machine_is_said_with_the_loop_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ADDITIONS", 1000)
    line = measured_on(1.25)
    assert " cores, " in line
    assert "(1.25 before, " in line


def test_the_loop_factor_needs_no_environment() -> None:
    """-I: no package but those of the standard library."""
    short = (
        f"import sys; sys.path.append({str(ROOT / 'bench')!r})\n"
        "import machine\nmachine.ADDITIONS = 1000\nprint(machine.loop_factor())"
    )
    command = [sys.executable, "-I", "-c", short]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(printed) > 0


# Programs that time nothing, so their figures do not depend on the machine's speed.
UNTIMED = {
    "machine.py": "prints the loop factor itself",
    "memory_observed.py": "compares estimates with logs",
    "verdicts.py": "compares two revisions",
    "vendors.py": "serves archives to bench/cold.py",
    "queueing.py": "compares a formula with a simulation",
    "aiconfigurator/latency_fit.py": "fits constants to recorded rows",
    "aiconfigurator/latency_record.py": "records another tool's estimates",
    "aiconfigurator/latency_table.py": "compares estimates with recorded rows",
    "aiconfigurator/memory_compare.py": "compares estimates with recorded rows",
    "aiconfigurator/memory_record.py": "records another tool's estimates",
}


def programs() -> dict[str, str]:
    """The text of every file of bench/ that is a program, by its path there; bench/service_times.py
    prints the rows of those in in_services/, and the loop factor."""
    files = set((ROOT / "bench").rglob("*.py")) - set((ROOT / "bench/in_services").iterdir())
    texts = {path: path.read_text() for path in sorted(files)}
    return {
        str(path.relative_to(ROOT / "bench")): text
        for path, text in texts.items()
        if 'if __name__ == "__main__":' in text
    }


def test_every_benchmark_prints_the_loop_factor_of_before_and_after() -> None:
    pairs = (ROOT / "bench/pairs.py").read_text()  # runs and prints what some of them measure
    for name in programs().keys() - UNTIMED:
        text = programs()[name]
        text = pairs if "from bench.pairs import" in text else text
        assert "loop_factor()" in text, name
        printed = re.findall(r"measured_on\((.*?)\)", text)
        assert printed, name
        assert all(before.isidentifier() for before in printed), f"{name}: timed before the run"


def test_what_prints_no_loop_factor_times_nothing() -> None:
    assert UNTIMED.keys() <= programs().keys()
    for name in UNTIMED.keys() - {"machine.py"}:
        assert not re.search(r"^(import|from) time", programs()[name], re.MULTILINE), name
