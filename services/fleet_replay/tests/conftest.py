"""Imports of the replay under test and of the simulated engine that it drives."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_REPLAY = _TESTS.parent
sys.path[:0] = [str(_REPLAY), str(_TESTS), str(_REPLAY.parent / "engine_sim")]
