"""Loopback addresses of this test run's worker: workers side by side share none."""

from __future__ import annotations

import os

# gw0, gw1, ... of pytest-xdist; its groups, which would do too, are lost on pytest 9.2
# (pytest-xdist issue 1386).
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

NETWORK = f"127.96.{WORKER}"  # of local servers
DEV_NETWORK = f"127.80.{WORKER}"  # of dev environments that are never brought up
