"""Makes the package and the test support importable."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parents[1])]

pytest_plugins = ("fake_clock", "broken_answers")
