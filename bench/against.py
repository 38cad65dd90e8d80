"""This checkout against an earlier revision of it, in alternating pairs, as a markdown table.

    .venv/bin/python bench/against.py [--from REVISION] [--pairs 5] [--bar QUANTITY=RATIO ...]
                                      [--program-only]

Each side has a folder of its own and brings up the `dev` environment there, warm: `up`, then `up`,
`preview` and `plan` without a change, the median of three, the memory of its processes, and the
program of a thousand models. Both use the same addresses, so only the side being measured runs.
Takes about four minutes per pair, or half a minute for the thousand models alone; ends with nothing
running. Exits with 1 over a bar.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.environment import memory_by_part  # noqa: E402
from bench.pairs import add_arguments, compare, program_of  # noqa: E402
from bench.revisions import BEFORE_ONE_PLAN, extract  # noqa: E402
from tests.live.environments import copy_tree  # noqa: E402

THOUSAND_MODELS = ("bench/preview_scale.py", "--models", "1000")
MIB = 1 << 20
QUANTITIES = {
    "warm": "warm `up`, to the answer, s",
    "up": "`up` without a change, s",
    "preview": "`preview` without a change, s",
    "plan": "`plan`, s",
    "memory": "memory of all but the engines, MiB",
    "program": "1,000 models: the whole program, s",
    "peak": "1,000 models: peak RSS, MB",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", default=BEFORE_ONE_PLAN)
    parser.add_argument("--program-only", action="store_true", help="measure the thousand models")
    add_arguments(parser, QUANTITIES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slw-") as folder:
        before, now = Path(folder, "before"), Path(folder, "now")
        extract(options.revision, before)
        copy_tree(now)
        if options.program_only:
            for side in (before, now):
                slipway(side, "plan")  # makes .venv
            return compare(
                options, before, now, lambda side: program_of(side, *THOUSAND_MODELS), QUANTITIES
            )
        with prepared(before, now):
            return compare(options, before, now, measured, QUANTITIES)


@contextmanager
def prepared(before: Path, now: Path) -> Iterator[None]:
    """Fills the caches of both; takes both down at the end."""
    try:
        for side in (before, now):
            slipway(side, "up", "--json")
            slipway(side, "down", "--yes")
        yield
    finally:
        for side in (before, now):
            slipway(side, "down", "--yes")


def measured(side: Path) -> dict[str, float]:
    found = {"warm": up_s(side)}
    found["up"] = median_of_three(lambda: up_s(side))
    for name, command in (("preview", ["preview", "--expect-no-changes"]), ("plan", ["plan"])):
        found[name] = median_of_three(partial(seconds, side, *command))
    memory = memory_by_part(side / ".slipway" / "dev")
    found["memory"] = sum(size for part, size in memory.items() if part != "engines") / MIB
    slipway(side, "down", "--yes")
    return found | program_of(side, *THOUSAND_MODELS)


def median_of_three(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(3))


def slipway(side: Path, *arguments: str) -> str:
    command = [str(side / "slipway"), *arguments]
    return subprocess.run(command, cwd=side, check=True, capture_output=True, text=True).stdout


def up_s(side: Path) -> float:
    return float(json.loads(slipway(side, "up", "--json").splitlines()[-1])["seconds"])


def seconds(side: Path, *arguments: str) -> float:
    started = time.monotonic()
    slipway(side, *arguments)
    return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
