"""Imports of the replay under test, of the simulated engine that it drives, and of test support."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_REPLAY = _TESTS.parent
_SERVICES = _REPLAY.parent
_IMPORTED = (_REPLAY, _TESTS, _SERVICES / "engine_sim", _SERVICES / "testing")
sys.path[:0] = map(str, _IMPORTED)

from property_tests import without_time_limits  # noqa: E402 - needs the path above

without_time_limits()
