"""What the kernel writes to its log."""

from __future__ import annotations

import os
import re
import select
from dataclasses import dataclass
from pathlib import Path

KMSG = Path("/dev/kmsg")
LARGEST_RECORD_BYTES = 8192
# Priority, number, microseconds since the boot and flags, then the text, as in
# "6,1234,5140900,-;usb 1-1: new device" (Documentation/ABI/testing/dev-kmsg).
RECORD = re.compile(r"\d+,(\d+),\d+,[^;\n]*;(.*)")


@dataclass(frozen=True)
class Line:
    """`number` grows with each record since the boot."""

    number: int
    text: str


class KernelLog:
    """The log after the record of the number `after`. Raises OSError if it cannot be read."""

    def __init__(self, after: int, file: Path = KMSG) -> None:
        self.position = after  # the number of the last record that was read
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
            found += self._new(text.decode(errors="replace"))
        return found

    def close(self) -> None:
        os.close(self._descriptor)

    def _new(self, text: str) -> list[Line]:
        """Lines without a head continue a record; nothing of interest is in them."""
        found = [Line(int(match[1]), match[2]) for match in RECORD.finditer(text)]
        new = [line for line in found if line.number > self.position]
        self.position = max((self.position, *(line.number for line in new)))
        return new
