"""Transfers over libfabric, as `fi_pingpong` prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.readings.errors import CutOffError, ToolFailedError, UnknownFormError

SMALL_BYTES = 1024

_TOOL = "fi_pingpong"
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d+)([kmg]?)$")
_COLUMNS = ("bytes", "#sent", "#ack", "total", "time", "MB/sec", "usec/xfer", "Mxfers/sec")


@dataclass(frozen=True)
class PingPong:
    """`transfer_us` is one way, the best of the sizes up to 1 KiB: the first one measured includes
    the setting up of the connection."""

    transfer_us: float
    largest_bytes: int
    largest_gbit_per_s: float


def parse_pingpong(text: str) -> PingPong:
    """Raises ReadingError."""
    if said := re.search(r"^.*(?:fi_getinfo|error|failed).*$", text, re.MULTILINE | re.IGNORECASE):
        raise ToolFailedError(_TOOL, said[0].strip())
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines:
        raise CutOffError(_TOOL, "its table")
    if tuple(lines[0]) != _COLUMNS:
        raise UnknownFormError(_TOOL, f"the columns are {' '.join(lines[0])}")
    rows = [_row(fields) for fields in lines[1:]]
    small = [us for size, _, us in rows if size <= SMALL_BYTES]
    if not small:
        raise CutOffError(_TOOL, "a transfer of small messages")
    size, mbyte_per_s, _ = max(rows)
    return PingPong(min(small), size, mbyte_per_s * 8 / 1000)


def _row(fields: list[str]) -> tuple[int, float, float]:
    """Bytes, MB/s and microseconds a transfer."""
    size = _SIZE.match(fields[0])
    try:
        if size is None or len(fields) != len(_COLUMNS):
            raise ValueError
        return int(size[1]) * _UNITS[size[2]], float(fields[5]), float(fields[6])
    except ValueError:
        raise UnknownFormError(_TOOL, f"a row is {' '.join(fields)}") from None
