"""What is refused in a file of tests: its outcome must not depend on how fast the machine is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.elapsed.clocks import Clocks
from tests.elapsed.modules import Finding, parsed
from tests.elapsed.waits import short_waits

# Most files read no clock, and need not be followed.
CLOCK = re.compile(r"monotonic|perf_counter|_time\b|time_ns|gettime|time\.time|\.time\(|now\b")


def refused_in(file: Path) -> list[Finding]:
    module = parsed(file)
    found = [*short_waits(module)]
    if CLOCK.search(file.read_text()):
        found += Clocks(module).findings()
    return sorted(found, key=lambda finding: finding.line)


def files_of_tests(checkout: Path) -> Iterator[Path]:
    """Everything below folders of tests, and what the services' tests share."""
    for top in ("tests", "services", "policies", "toolchain"):
        for file in (checkout / top).rglob("*.py"):
            if {"tests", "testing"} & set(file.relative_to(checkout).parts):
                yield file
