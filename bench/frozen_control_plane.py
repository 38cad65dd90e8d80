"""A model's change while the control plane is frozen, as a markdown table.

    .venv/bin/python bench/frozen_control_plane.py [--seconds 30] [--runs 1]

Starts a platform of its own with two simulated models, of which one has `surge: 0`, and changes a
flag of both in one `slipway up` under streaming load on both protocols. The control plane is
stopped (SIGSTOP) before `slipway up` begins, and goes on after the given time. Bar: no request
fails, and every old replica serves until then.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.own_platform import own_platform  # noqa: E402
from tests.live.environments import SMALL_MODELS, deployment  # noqa: E402
from tests.live.frozen_control_plane import FrozenChange, change_while_frozen  # noqa: E402

MODELS = SMALL_MODELS | {"sim-tight": deployment(2, 2) | {"pool": "tight", "surge": 0}}
SEQUENCES = (16, 32)  # max_num_seqs of one run and the next
HEADINGS = (
    "frozen",
    "`up` took",
    "route written meanwhile",
    "old replicas kept meanwhile",
    "failed of requests (bar: 0)",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    before, kept = loop_factor(), True
    with own_platform("frozen", network="127.88.0", models=MODELS, nodes=1) as platform:
        print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
        for run in range(options.runs):
            change = asyncio.run(
                change_while_frozen(
                    platform,
                    list(MODELS),
                    frozen_s=options.seconds,
                    max_num_seqs=SEQUENCES[run % len(SEQUENCES)],
                )
            )
            show(change)
            kept = kept and change.moved and change.kept and not change.load.failures
    print(f"\n{measured_on(before)}")
    return int(not kept)


def show(change: FrozenChange) -> None:
    cells = (
        f"{change.frozen_s:.0f} s",
        f"{change.up_s:.1f} s",
        "yes" if change.moved else "no",
        "yes" if change.kept else "no",
        f"{len(change.load.failures)} of {sum(map(len, change.load.answers.values()))}",
    )
    print("| " + " | ".join(cells) + " |", flush=True)
    for failure in change.load.failures:
        print(failure, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
