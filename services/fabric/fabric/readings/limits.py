"""How much memory a process may lock, as `ulimit -l` or `ulimit -a` of its shell says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.readings.errors import UnknownFormError


@dataclass(frozen=True)
class LockedMemory:
    """None means unlimited."""

    most_kib: int | None


def parse_ulimit(text: str) -> LockedMemory:
    """Raises ReadingError."""
    match = re.search(r"^max locked memory\s+\(kbytes, -l\)\s+(\S+)$", text, re.MULTILINE)
    value = match[1] if match else text.strip()
    if value == "unlimited":
        return LockedMemory(None)
    if not value.isdigit():
        raise UnknownFormError("ulimit", f"{value[:60]!r} is no number of KiB")
    return LockedMemory(int(value))
