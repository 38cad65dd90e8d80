"""How network cards reach the memory of accelerators: kernel modules, driver and kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.readings.errors import CutOffError, UnknownFormError

PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")


@dataclass(frozen=True)
class Modules:
    """The names of the loaded kernel modules."""

    names: frozenset[str]


@dataclass(frozen=True)
class NvidiaDriver:
    """`is_open`: the open kernel modules, which alone export memory as dma-buf."""

    version: str
    is_open: bool


@dataclass(frozen=True, order=True)
class Kernel:
    major: int
    minor: int


def parse_modules(text: str) -> Modules:
    """Of `lsmod` or /proc/modules. Raises ReadingError."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if lines and lines[0][0] == "Module":
        lines = lines[1:]
    if not lines:
        raise CutOffError("lsmod", "its first module")
    odd = [line for line in lines if len(line) < 3 or not line[1].isdigit()]
    if odd:
        raise UnknownFormError("lsmod", f"a line is {' '.join(odd[0])}")
    return Modules(frozenset(line[0] for line in lines))


def parse_nvidia_version(text: str) -> NvidiaDriver:
    """Of /proc/driver/nvidia/version. Raises ReadingError."""
    match = re.search(r"^NVRM version: NVIDIA UNIX (.*?)Kernel Module.*?\s(\d+\.[\d.]+)\s", text)
    if match is None:
        raise UnknownFormError("nvidia_version", "no line begins with NVRM version: NVIDIA UNIX")
    return NvidiaDriver(match[2], match[1].startswith("Open "))


def parse_uname(text: str) -> Kernel:
    """Of `uname -r`. Raises ReadingError."""
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        raise UnknownFormError("uname", f"{text.strip()!r} is no release")
    return Kernel(int(match[1]), int(match[2]))
