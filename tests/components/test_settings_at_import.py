"""The program is imported before Pulumi's settings are known (toolchain/language_host)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SETTINGS = {"Config", "get_stack", "get_project", "get_organization", "is_dry_run"}


def asked_when_imported(text: str) -> Iterator[str]:
    """What a module asks outside of its functions."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


@pytest.mark.thorough
def test_no_module_of_the_program_asks_for_pulumi_s_settings_when_it_is_imported() -> None:
    modules = [
        module
        for part in ("components", "stacks", "src")
        for module in CHECKOUT.glob(f"{part}/**/*.py")
    ]
    assert modules
    for module in modules:
        assert not SETTINGS & set(asked_when_imported(module.read_text())), module


def test_a_setting_that_is_asked_for_at_import_is_found() -> None:
    text = "import pulumi\nclass A:\n    region = pulumi.Config('a').get('region')\n"
    assert "Config" in set(asked_when_imported(text))
    assert not set(asked_when_imported("import pulumi\ndef f():\n    pulumi.get_stack()\n"))
