"""What the kernel writes to its log."""

from __future__ import annotations

import os
import re
import select
import time
from dataclasses import dataclass
from pathlib import Path

KMSG = Path("/dev/kmsg")
LARGEST_RECORD_BYTES = 8192
# Priority, number, microseconds since the boot and flags, then the text, as in
# "6,1234,5140900,-;usb 1-1: new device" (Documentation/ABI/testing/dev-kmsg).
RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
MICROSECONDS_PER_S = 1e6


@dataclass(frozen=True)
class Line:
    """`is_old` if it was written before the log was opened."""

    text: str
    is_old: bool


class KernelLog:
    """The log from `since_s` on, in seconds since the boot. Raises OSError if it cannot be read."""

    def __init__(self, since_s: float, file: Path = KMSG) -> None:
        self._since_s = since_s
        self._opened_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def lines(self, timeout_s: float) -> list[Line]:
        """What was written since the last call; waits for something at most `timeout_s`."""
        found: list[Line] = []
        wait_ms = round(timeout_s * 1000)
        while self._poll.poll(wait_ms):
            wait_ms = 0  # the others are there already
            try:
                text = os.read(self._descriptor, LARGEST_RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before they were read
                continue
            if not text:
                break
            found += self._parsed(text.decode(errors="replace"))
        return found

    def close(self) -> None:
        os.close(self._descriptor)

    def _parsed(self, text: str) -> list[Line]:
        """Lines without a head continue a record; nothing of interest is in them."""
        records = (
            (int(match[1]) / MICROSECONDS_PER_S, match[2]) for match in RECORD.finditer(text)
        )
        return [
            Line(message, written_s < self._opened_s)
            for written_s, message in records
            if written_s >= self._since_s
        ]
