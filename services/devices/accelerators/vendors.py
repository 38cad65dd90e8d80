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


def driver_of(
    vendor: str, expected: Expected, *, log_since_s: float, say: Callable[[str], None]
) -> Driver:
    log = _log(log_since_s, say)
    return Nvidia(expected, log) if vendor == nvidia.VENDOR else Amd(log)


def _log(since_s: float, say: Callable[[str], None]) -> KernelLog | None:
    try:
        return KernelLog(since_s)
    except OSError as error:
        say(f"what the kernel logs of accelerators stays unknown: {error}")
        return None
