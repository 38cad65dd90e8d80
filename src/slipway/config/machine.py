"""Cores and memory of this machine, for local pools; read once and passed to the planner."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ROUNDING_BYTES = 64 * 2**20  # hides kernel updates, which move the total by a few MiB

# A container's limit, in cgroup v2 and v1; "max" or a huge number if there is none.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    cpu_cores: int
    memory_bytes: int


def read_machine() -> MachineFacts:
    """Cores this process may use, and total (not free) memory, rounded to 64 MiB."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = usable_memory(physical, (_text(path) for path in _LIMITS))
    return MachineFacts(cpu_cores=len(os.sched_getaffinity(0)), memory_bytes=memory)


def usable_memory(physical_bytes: int, limits: Iterable[str]) -> int:
    """The smallest of physical memory and any numeric limits, rounded down to 64 MiB."""
    numbers = [int(limit) for limit in limits if limit.isdecimal()]
    return min([physical_bytes, *numbers]) // _ROUNDING_BYTES * _ROUNDING_BYTES


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
