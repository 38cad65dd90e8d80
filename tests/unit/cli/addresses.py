"""Loopback addresses of this worker: parallel workers share none."""

from __future__ import annotations

from tests.workers import WORKER

NETWORK = f"127.96.{WORKER}"  # of local servers
DEV_NETWORK = f"127.80.{WORKER}"  # of dev environments that are never brought up
