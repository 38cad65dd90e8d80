"""The drivers, by vendor."""

from __future__ import annotations

from collections.abc import Callable

from accelerators import amd, nvidia
from accelerators.amd import Amd
from accelerators.driver import Driver
from accelerators.kernel_log import KernelLog
from accelerators.nvidia import Nvidia
from accelerators.nvidia_signals import Expected

VENDORS = (amd.VENDOR, nvidia.VENDOR)


def driver_of(vendor: str, expected: Expected, log: KernelLog | None) -> Driver:
    return Nvidia(expected, log) if vendor == nvidia.VENDOR else Amd(log)


def open_log(after: int, say: Callable[[str], None]) -> KernelLog | None:
    """The kernel's log after the record of that number; None if it cannot be read."""
    try:
        return KernelLog(after)
    except OSError as error:
        say(f"what the kernel logs of devices stays unknown: {error}")
        return None
