"""Finds the real programs that tests drive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def find(tool: str) -> str:
    """Path of a program: $SLIPWAY_TEST_<TOOL>, Slipway's cache, PATH; else the test is skipped."""
    explicit = os.environ.get(f"SLIPWAY_TEST_{tool.upper()}")
    if explicit:
        return explicit
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("SLIPWAY_CACHE") or Path(home) / "slipway")
    cached = sorted(cache.glob(f"tools/bin/{tool}-*/{tool}"))
    path = str(cached[-1]) if cached else shutil.which(tool)
    if path is None:
        pytest.skip(f"needs {tool}: set SLIPWAY_TEST_{tool.upper()} to its path")
    return path
