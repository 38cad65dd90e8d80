"""Finds real tools for tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolchain.settings import default_cache


def find(tool: str) -> Path:
    """The tool in SLIPWAY_TEST_BIN, else the newest in the cache; skips if there is none."""
    if folder := os.environ.get("SLIPWAY_TEST_BIN"):
        candidates = [Path(folder) / tool]
    else:
        tools = default_cache() / "tools" / "bin"
        candidates = sorted(tools.glob(f"{tool}-[0-9]*/{tool}"), reverse=True)
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        pytest.skip(f"no {tool}: set SLIPWAY_TEST_BIN or run `slipway tools`")
    return found
