"""Two checkouts measured in alternating pairs, as a markdown table with a bar for each ratio."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import loop_factor, measured_on

BAR = 1.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """`of` measures quantities of one checkout, by name: for each pair that is asked for, this many
    times on either side, in turns."""

    of: Callable[[Path], Mapping[str, float]]
    per_pair: int = 1


def add_arguments(parser: argparse.ArgumentParser, quantities: Mapping[str, str]) -> None:
    """`quantities`: what each row of the table says, by the name that --bar takes."""

    def bar_of(text: str) -> tuple[str, float]:
        name, _, ratio = text.partition("=")
        if name not in quantities:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(quantities)}")
        return name, float(ratio)

    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--bar",
        dest="bars",
        metavar="QUANTITY=RATIO",
        type=bar_of,
        action="append",
        default=[],
        help=f"highest median of the pairs' ratios, {BAR} where none is given;"
        f" QUANTITY is one of {', '.join(quantities)}",
    )


def compare(
    options: argparse.Namespace,
    before: Path,
    now: Path,
    measurements: Sequence[Measurement],
    quantities: Mapping[str, str],
) -> int:
    """Prints the table; returns 1 if a ratio is over its bar."""
    # Images of containers often ban byte code. Each Python would then compile itself first, which
    # would hide what a command does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    bars, factor, sides = dict(options.bars), loop_factor(), (before, now)
    rows: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for measurement in measurements:
        pairs = options.pairs * measurement.per_pair
        for pair in range(pairs):
            for side in (0, 1) if pair % 2 == 0 else (1, 0):
                values = measurement.of(sides[side])
                for name, value in values.items():
                    rows[name][side].append(value)
            latest = {name: [each[-1] for each in rows[name]] for name in values}
            said = ", ".join(f"{name} {a:.3g}, now {b:.3g}" for name, (a, b) in latest.items())
            print(f"pair {pair + 1} of {pairs}: {said}", file=sys.stderr)
    print(f"{measured_on(factor)}, against {options.revision}\n")
    print("| | before | now | ratio | bar |\n|---|---|---|---|---|")
    held = [
        _report(quantities[name], *rows[name], bars.get(name, BAR))
        for name in quantities
        if name in rows
    ]
    return 0 if all(held) else 1


def program_of(side: Path, *benchmark: str) -> dict[str, float]:
    """Time and memory of a large program, by this benchmark of a checkout's own."""
    table = subprocess.run(
        [side / ".venv/bin/python", *benchmark],
        cwd=side,
        check=False,  # 1 where a bar of its own is missed: here the ratio counts
        capture_output=True,
        text=True,
    ).stdout
    return {
        "program": _number(table, r"the whole program \| ([\d.]+) s"),
        "peak": _number(table, r"peak RSS \| ([\d.]+) MB"),
    }


def _number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no {pattern!r} in:\n{text}")
    return float(found[1])


def _report(quantity: str, before: Sequence[float], now: Sequence[float], bar: float) -> bool:
    """Prints the medians, and the median of the pairs' ratios; returns whether that holds."""
    ratio = statistics.median(after / earlier for earlier, after in zip(before, now, strict=True))
    medians = " | ".join(f"{statistics.median(values):.3g}" for values in (before, now))
    print(f"| {quantity} | {medians} | {ratio:.3f} | {bar:.2f} |")
    return ratio <= bar
