"""Makes the service and its test support importable."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]
