"""A pipe in place of the kernel's log."""

from __future__ import annotations

import os
import time
from pathlib import Path


class FakeLog:
    """What is written to it can be read from its file as from /dev/kmsg."""

    def __init__(self, file: Path) -> None:
        os.mkfifo(file)
        self.file = file
        self._sink = os.open(file, os.O_RDWR)

    def write(self, text: str, at_s: float | None = None) -> None:
        """At a time in seconds since the boot, by default now."""
        written_s = time.clock_gettime(time.CLOCK_BOOTTIME) if at_s is None else at_s
        os.write(self._sink, f"6,1234,{round(written_s * 1e6)},-;{text}\n".encode())

    def close(self) -> None:
        os.close(self._sink)
