"""The number of this parallel worker: each has loopback addresses of its own."""

from __future__ import annotations

import os

# pytest-xdist's gw0, gw1, ... Its groups would do as well, but are lost with pytest 9.2
# (pytest-xdist issue 1386).
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
