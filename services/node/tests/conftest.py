"""Makes the programs and their test support importable, as they are on a host: side by side."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]
