"""What a measurement was taken on."""

from __future__ import annotations

import datetime
import os
import platform

import psutil


def measured_on() -> str:
    """With the date, for the line above a table."""
    memory_gib = psutil.virtual_memory().total / (1 << 30)
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    return f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {system}, {today}"
