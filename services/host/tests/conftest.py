"""Makes the programs and their test support importable, side by side as where they run."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_SERVICE = _TESTS.parent
sys.path[:0] = [str(_TESTS), str(_SERVICE), str(_SERVICE.parent / "program/tests")]

pytest_plugins = ("fake_clock", "broken_answers", "cluster_fixtures")
