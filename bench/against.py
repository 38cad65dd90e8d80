"""This checkout against an earlier revision of it, in alternating pairs, as a markdown table.

    .venv/bin/python bench/against.py [--from REVISION] [--pairs 5]

Each side has a folder of its own and brings up the `dev` environment there, warm: `up`, then `up`
and `preview` without a change, the median of three, and `plan`, the memory of its processes, and
the program of a thousand models. Both use the same addresses, so only the side being measured runs.
Takes about four minutes per pair; ends with nothing running.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.environment import memory_by_part  # noqa: E402
from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.revisions import BEFORE_ONE_PLAN, extract  # noqa: E402
from tests.live.environments import copy_tree  # noqa: E402

MODELS = "1000"
MIB = 1 << 20
BAR = 1.10
BARS = {"`up` without a change": 1.15, "`preview` without a change": 1.15}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", default=BEFORE_ONE_PLAN)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    factor = loop_factor()
    rows: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    with tempfile.TemporaryDirectory(prefix="slw-") as folder, sides(Path(folder), options) as both:
        for pair in range(options.pairs):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            for side in order:
                for quantity, value in measured(both[side]).items():
                    rows[quantity][side].append(value)
            print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr)
    print(f"{measured_on(factor)}, against {options.revision}\n")
    print("| | before | now | ratio | bar |\n|---|---|---|---|---|")
    ratios = [report(quantity, *values) for quantity, values in rows.items()]
    bars = [bar(quantity) for quantity in rows]
    return 0 if all(ratio <= most for ratio, most in zip(ratios, bars, strict=True)) else 1


@contextmanager
def sides(folder: Path, options: argparse.Namespace) -> Iterator[Sequence[Path]]:
    """(the earlier checkout, this one), both prepared, and taken down at the end."""
    before, now = folder / "before", folder / "now"
    extract(options.revision, before)
    copy_tree(now)
    try:
        for side in (before, now):
            slipway(side, "up", "--json")
            slipway(side, "down", "--yes")
        yield before, now
    finally:
        for side in (before, now):
            slipway(side, "down", "--yes")


def measured(side: Path) -> Mapping[str, float]:
    found = {"warm `up`, to the answer": up_s(side)}
    found["`up` without a change"] = median_of_three(lambda: up_s(side))
    preview = ("preview", "--expect-no-changes")
    found["`preview` without a change"] = median_of_three(
        lambda: seconds(lambda: slipway(side, *preview))
    )
    found["`plan`"] = seconds(lambda: slipway(side, "plan"))
    memory = memory_by_part(side / ".slipway" / "dev")
    others = sum(size for part, size in memory.items() if part != "engines")
    found["memory of all but the engines, MiB"] = others / MIB
    slipway(side, "down", "--yes")
    table = subprocess.run(
        [str(side / ".venv/bin/python"), "bench/preview_scale.py", "--models", MODELS],
        cwd=side,
        check=False,  # 1 where a bar of its own is missed: here the ratio counts
        capture_output=True,
        text=True,
    ).stdout
    found[f"{MODELS} models: the whole program"] = number(table, r"the whole program \| ([\d.]+) s")
    found[f"{MODELS} models: peak RSS, MB"] = number(table, r"peak RSS \| ([\d.]+) MB")
    return found


def median_of_three(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(3))


def slipway(side: Path, *arguments: str) -> str:
    command = [str(side / "slipway"), *arguments]
    return subprocess.run(command, cwd=side, check=True, capture_output=True, text=True).stdout


def up_s(side: Path) -> float:
    return float(json.loads(slipway(side, "up", "--json").splitlines()[-1])["seconds"])


def seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no {pattern!r} in:\n{text}")
    return float(found[1])


def report(quantity: str, before: Sequence[float], now: Sequence[float]) -> float:
    """Prints the medians; returns the median of the pairs' ratios."""
    ratio = statistics.median(after / earlier for earlier, after in zip(before, now, strict=True))
    medians = " | ".join(f"{statistics.median(values):.3g}" for values in (before, now))
    print(f"| {quantity} | {medians} | {ratio:.2f} | {bar(quantity):.2f} |")
    return ratio


def bar(quantity: str) -> float:
    return BARS.get(quantity, BAR)


if __name__ == "__main__":
    sys.exit(main())
