"""Notices at once when a process ends, whether or not it is a child."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class ProcessWatch:
    """Calls back once per watched process when it ends. Uses pidfds: Linux 5.3 or later."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}

    def add(self, pid: int, name: str, on_end: Callable[[str], None]) -> None:
        """A process that has already gone counts as ending now."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            loop.call_soon(on_end, name)
            return
        self._descriptors[pid] = descriptor
        loop.add_reader(descriptor, self._ended, pid, name, on_end)

    def forget(self, pid: int) -> None:
        if (descriptor := self._descriptors.pop(pid, None)) is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def _ended(self, pid: int, name: str, on_end: Callable[[str], None]) -> None:
        self.forget(pid)
        on_end(name)
