"""Makes the service, its test support and what all services' tests share importable.

The service's folder comes last: xds-protos owns the top-level package `xds`, and xds.py must not
hide it.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_SERVICE = _TESTS.parent
sys.path[:] = [path for path in sys.path if Path(path).resolve() != _SERVICE]
sys.path += [str(_TESTS), str(_SERVICE), str(_SERVICE.parent / "testing")]

from property_tests import without_time_limits  # noqa: E402 - needs the path above

without_time_limits()
