"""Bandwidth and latency, as `ib_write_bw` and `ib_write_lat` of perftest print them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.readings.errors import CutOffError, ToolFailedError, UnknownFormError

# perftest's MB are 2^20 bytes (perftest_parameters.h, format MBps); its Gb are 10^9 bits.
_GBIT = {"Gb/sec": 1.0, "MB/sec": 2**20 * 8 / 1e9, "MiB/sec": 2**20 * 8 / 1e9}
_FAILURE = re.compile(
    r"^\s*(?:.*: )?(Couldn't .*|Failed .*|failed to .*|Unable to .*|Completion with error.*)$",
    re.MULTILINE,
)
_LATENCIES = (
    "t_min[usec]",
    "t_max[usec]",
    "t_typical[usec]",
    "t_avg[usec]",
    "t_stdev[usec]",
    "99% percentile[usec]",
    "99.9% percentile[usec]",
)


@dataclass(frozen=True)
class Connection:
    """What the two ends agreed on. InfiniBand may have no GID index."""

    device: str
    mtu_bytes: int
    gid_index: int | None


@dataclass(frozen=True)
class Bandwidth:
    """`average_gbit_per_s` is the rate of the size that did best; a size that was measured several
    times counts with its slowest. `message_bytes` is the largest size."""

    connection: Connection
    message_bytes: int
    average_gbit_per_s: float


@dataclass(frozen=True)
class Latency:
    """One way, of the smallest messages."""

    connection: Connection
    message_bytes: int
    iterations: int
    typical_us: float
    p99_us: float
    p999_us: float
    max_us: float


def parse_write_bw(text: str) -> Bandwidth:
    """Of any version, with and without --report_gbits. Raises ReadingError."""
    tool = "ib_write_bw"
    _refuse_failure(tool, text)
    if "Bidirectional" in text:
        raise UnknownFormError(tool, "its figures are of both directions together")
    heading, rows = _table(tool, text)
    unit = re.search(r"BW average\[(.+?)\]", heading)
    if unit is None or unit[1] not in _GBIT:
        raise UnknownFormError(tool, f"the columns are {heading.strip()!r}")
    slowest: dict[int, float] = {}
    for row in rows:
        size, average = int(row[0]), _number(tool, row[3:4], row)
        slowest[size] = min(average, slowest.get(size, average))
    best = max(slowest.values()) * _GBIT[unit[1]]
    return Bandwidth(_connection(tool, text), max(slowest), best)


def parse_write_lat(text: str) -> Latency:
    """Of runs by iterations, which alone have percentiles. Raises ReadingError."""
    tool = "ib_write_lat"
    _refuse_failure(tool, text)
    heading, rows = _table(tool, text)
    missing = [name for name in _LATENCIES if name not in heading]
    if missing:
        raise UnknownFormError(tool, f"there is no column {missing[-1]} in {heading.strip()!r}")
    row = min(rows, key=lambda each: int(each[0]))
    if len(row) != 2 + len(_LATENCIES):
        raise UnknownFormError(tool, f"a row has {len(row)} columns: {' '.join(row)}")
    numbers = [_number(tool, row[at : at + 1], row) for at in range(2, len(row))]
    _, longest, typical, _, _, p99, p999 = numbers
    return Latency(_connection(tool, text), int(row[0]), int(row[1]), typical, p99, p999, longest)


def _refuse_failure(tool: str, text: str) -> None:
    if said := _FAILURE.findall(text):
        raise ToolFailedError(tool, "; ".join(each.strip() for each in said[:2]))


def _table(tool: str, text: str) -> tuple[str, list[list[str]]]:
    """The line of the columns, and the rows below it."""
    before, heading, after = text.partition("#bytes")
    if not heading:
        if "Mtu" in before or not before.strip():
            raise CutOffError(tool, "its table")
        raise UnknownFormError(tool, "no line begins with #bytes")
    columns, _, rest = after.partition("\n")
    rows = [line.split() for line in rest.splitlines() if line.strip()[:1].isdigit()]
    if not rows:
        raise CutOffError(tool, "its result")
    return columns, rows


def _connection(tool: str, text: str) -> Connection:
    device = re.search(r"Device\s*: (\S+)", text)
    mtu = re.search(r"Mtu\s*: (\d+)\[B\]", text)
    if device is None or mtu is None:
        raise UnknownFormError(tool, "the header has no Device or no Mtu")
    gid = re.search(r"G[Ii][Dd] index\s*: (\d+)", text)
    return Connection(device[1], int(mtu[1]), int(gid[1]) if gid else None)


def _number(tool: str, column: list[str], row: list[str]) -> float:
    try:
        number = float(column[0])
    except (IndexError, ValueError):
        raise UnknownFormError(tool, f"a row is {' '.join(row)}") from None
    if number < 0:  # of overflows, perftest's issue 82
        raise UnknownFormError(tool, f"a figure is negative: {' '.join(row)}")
    return number
