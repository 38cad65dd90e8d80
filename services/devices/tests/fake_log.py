"""A pipe in place of the kernel's log."""

from __future__ import annotations

import os
from pathlib import Path


class FakeLog:
    """What is written to it can be read from its file as from /dev/kmsg."""

    def __init__(self, file: Path) -> None:
        os.mkfifo(file)
        self.file = file
        self._number = 0
        self._sink = os.open(file, os.O_RDWR)

    def write(self, text: str) -> None:
        """The next record; the first one is 0."""
        os.write(self._sink, f"6,{self._number},5140900,-;{text}\n".encode())
        self._number += 1

    def close(self) -> None:
        os.close(self._sink)
