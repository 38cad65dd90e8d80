"""One environment on this machine against its bars, as a markdown table.

    .venv/bin/python bench/environment.py [-s ENVIRONMENT] [--runs 3]

Takes the environment down and brings it up again, warm; then runs `up`, `preview` and `plan`
without a change, and adds up the memory of all its processes. Ends with the environment up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402

MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--stack", default="dev")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    slipway(options.stack, "down", "--yes")
    before, first = loop_factor(), up(options.stack)
    rows = [
        ("warm `up`, to the answer", f"{first['seconds']:.1f} s", "75 s"),
        *((f"  phase {name}", f"{seconds:.1f} s", "") for name, seconds in first["phases"].items()),
        ("TTFT of the probe", f"{first['ttft_ms']} ms", ""),
        (
            "`up` without a change",
            spread([up(options.stack)["seconds"] for _ in range(options.runs)]),
            "10 s",
        ),
        (
            "`preview` without a change",
            spread(timed(options, "preview", "--expect-no-changes")),
            "5 s",
        ),
        ("`plan`", spread(timed(options, "plan")), "1 s"),
    ]
    memory = memory_by_part(ROOT / ".slipway" / options.stack)
    others = sum(size for part, size in memory.items() if part != "engines")
    rows += [(f"PSS, {part}", f"{size / MIB:.0f} MiB", "") for part, size in sorted(memory.items())]
    rows += [
        ("PSS, everything but the engines", f"{others / MIB:.0f} MiB", "1.2 GB"),
        ("PSS, Envoy + xDS", f"{(memory['envoy'] + memory['xds']) / MIB:.0f} MiB", "200 MB"),
    ]
    print(f"{measured_on(before)}\n")
    print("| | measured | bar |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def slipway(stack: str, *arguments: str) -> str:
    command = [str(ROOT / "slipway"), arguments[0], "-s", stack, *arguments[1:]]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def up(stack: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(slipway(stack, "up", "--json").splitlines()[-1])
    return result


def timed(options: argparse.Namespace, *arguments: str) -> Iterator[float]:
    for _ in range(options.runs):
        started = time.monotonic()
        slipway(options.stack, *arguments)
        yield time.monotonic() - started


def spread(values: Iterator[float] | list[float]) -> str:
    values = list(values)
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{median:.2g} s ({low:.2g} to {high:.2g}, {len(values)} runs)"


def memory_by_part(run: Path) -> dict[str, int]:
    """Proportional set size in bytes: shared pages are divided among their users."""
    parts: dict[str, int] = defaultdict(int)
    for process in psutil.process_iter():
        try:
            if (part := part_of(process, str(run))) is not None:
                parts[part] += process.memory_full_info().pss
        except psutil.Error:
            continue
    return parts


def part_of(process: psutil.Process, run: str) -> str | None:
    variables, command = process.environ(), process.cmdline()
    if not any(run in text for text in (*command, *variables.values())):
        return None
    if process.pid == os.getpid() or not command:
        return None
    if "NOMAD_JOB_NAME" in variables:
        job = variables["NOMAD_JOB_NAME"]
        return "engines" if job.startswith("model-") else job
    for word, part in (
        ("log_collectors.py", "watcher of log collectors"),
        ("supervisord", "supervisord"),
    ):
        if word in " ".join(command):
            return part
    if command[1:2] in (["logmon"], ["executor"]):
        return f"nomad {command[1]}"
    return f"{Path(command[0]).name} agents"


if __name__ == "__main__":
    main()
