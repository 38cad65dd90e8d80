"""Addresses are put together in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program.addresses import beside, url

SERVICES = Path(__file__).parents[2]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_another_host_has_the_scheme_of_the_known_one(scheme: str) -> None:
    assert beside(f"{scheme}://10.0.0.2:8500", "10.0.0.8:18001") == url(scheme, "10.0.0.8:18001")
    assert url(scheme, "10.0.0.8:18001") == f"{scheme}://10.0.0.8:18001"


def test_one_module_puts_a_scheme_before_a_host() -> None:
    builds = re.compile(r'f"[^"\n]*(https?|\{[^}]*\})://')
    folders = (SERVICES / name for name in ("host", "operator", "program"))
    code = [path for each in folders for path in each.rglob("*.py") if "tests" not in path.parts]
    assert [path.name for path in code if builds.search(path.read_text())] == ["addresses.py"]
