"""Makes the package and the test support importable."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_SHARED = _TESTS.parents[1] / "testing"  # by the tests of all services
sys.path[:0] = [str(_TESTS), str(_TESTS.parents[1]), str(_SHARED)]

from property_tests import without_time_limits  # noqa: E402 - needs the path above

without_time_limits()

pytest_plugins = ("fake_clock", "broken_answers")
