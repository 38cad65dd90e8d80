"""The table of toolchain/plugins/README.md and the contract tests belong together."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
CONTRACT = CHECKOUT / "tests" / "contract"
README = CHECKOUT / "toolchain" / "plugins" / "README.md"
COLUMNS = ["Behaviour", "Stand-in", "Official plugin", "Tests", "Official run"]
RUNS = {"2026-11-23", "no", "–", "apart"}  # noqa: RUF001  (the dash of a table)
OF_PULUMI = {"stack", "recorded_stack", "pulumi_home"}  # fixtures by which a plugin takes part


@dataclass(frozen=True, kw_only=True)
class Row:
    behaviour: str
    official: str
    tests: list[str]
    run: str


def rows() -> list[Row]:
    lines = [line for line in README.read_text().splitlines() if line.startswith("|")]
    start = lines.index(f"| {' | '.join(COLUMNS)} |")
    found = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 2 :])
    return [
        Row(
            behaviour=cells[0],
            official=cells[2],
            tests=re.findall(r"`(.+?)`", cells[3]),
            run=cells[4],
        )
        for cells in found
    ]


@cache
def contract_tests() -> dict[str, bool]:
    """Each contract test, and whether SLIPWAY_TEST_PLUGINS=official runs it."""
    return dict(found for path in sorted(CONTRACT.glob("test_*.py")) for found in _of(path))


def _of(path: Path) -> Iterator[tuple[str, bool]]:
    module = ast.parse(path.read_text())
    marks = [node for node in module.body if isinstance(node, ast.Assign)]
    whole = any("stand_in" in ast.unparse(node) for node in marks)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            marked = whole or any("stand_in" in ast.unparse(each) for each in node.decorator_list)
            uses = {argument.arg for argument in node.args.args}
            yield f"{path.name}::{node.name}", bool(uses & OF_PULUMI) and not marked


def named(row: Row) -> set[str]:
    """The tests of a row, which may name a whole file."""
    return {
        test
        for test in contract_tests()
        for name in row.tests
        if test == name or test.startswith(f"{name}::")
    }


def test_every_row_names_tests_that_exist_and_says_whether_official_plugins_ran() -> None:
    assert rows()
    for row in rows():
        assert row.tests, row.behaviour
        for name in row.tests:
            assert name in {
                *contract_tests(),
                *(test.partition("::")[0] for test in contract_tests()),
            }
        assert row.run in RUNS, row.behaviour
        assert row.official or row.run == "apart", f"say that it is not known: {row.behaviour}"


def test_every_contract_test_belongs_to_one_row() -> None:
    counted = Counter(test for row in rows() for test in named(row))
    assert counted == Counter(dict.fromkeys(contract_tests(), 1))


def test_what_cannot_run_against_official_plugins_is_skipped_there_and_nothing_else_is() -> None:
    for row in rows():
        if row.run != "apart":
            runs = {contract_tests()[test] for test in named(row)}
            assert runs == {row.run != "–"}, row.behaviour  # noqa: RUF001
