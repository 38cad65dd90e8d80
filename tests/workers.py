"""Which of the workers side by side this is: each has loopback addresses of its own."""

from __future__ import annotations

import os

# gw0, gw1, ... of pytest-xdist; its groups, which would do too, are lost on pytest 9.2
# (pytest-xdist issue 1386).
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
