"""A collective over all devices of some hosts, as `all_reduce_perf` of nccl-tests prints it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fabric.readings.errors import CutOffError, ToolFailedError, UnknownFormError

_TOOL = "all_reduce_perf"
_VERDICT = re.compile(r"Out of bounds values\s*:\s*(\d+)\s*(OK|FAILED)")


@dataclass(frozen=True)
class AllReduce:
    """`bus_gbyte_per_s` is that of the largest size, in place or not, whichever is better; GB are
    10^9 bytes (nccl-tests' doc/PERFORMANCE.md)."""

    size_bytes: int
    bus_gbyte_per_s: float
    wrong_values: int


def parse_all_reduce(text: str) -> AllReduce:
    """Of nccl-tests and rccl-tests from 2021 on. Raises ReadingError."""
    said = re.search(r"^.*(?:Test .*failure|NCCL failure|unhandled).*$", text, re.MULTILINE)
    if said:
        raise ToolFailedError(_TOOL, said[0].strip())
    lines = [line.lstrip("# ").split() for line in text.splitlines()]
    names = next((line for line in lines if line.count("busbw") == 2), None)
    if names is None:
        raise UnknownFormError(_TOOL, "no line has the columns of algbw and busbw twice")
    rows = [line for line in lines if len(line) == len(names) and line[0].isdigit()]
    if not rows:
        raise CutOffError(_TOOL, "its result")
    verdict = _VERDICT.search(text)
    if verdict is None:
        raise CutOffError(_TOOL, "its verdict about wrong values")
    largest = max(rows, key=lambda row: int(row[0]))
    return AllReduce(int(largest[0]), max(_of("busbw", names, largest)), int(verdict[1]))


def _of(column: str, names: Sequence[str], row: Sequence[str]) -> list[float]:
    try:
        return [float(value) for name, value in zip(names, row, strict=True) if name == column]
    except ValueError:
        raise UnknownFormError(_TOOL, f"a row is {' '.join(row)}") from None
