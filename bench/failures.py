"""kill -9 of every kind of process of a running platform, as a markdown table.

    .venv/bin/python bench/failures.py [--only TEXT] [--runs 1] [--explain]

Brings up a platform of its own (a copy of this checkout, 127.78.0.0/24: the real model and a
simulated one, two replicas each), kills one process after the other under streaming load, and takes
the platform down. The load uses both protocols of the model whose replica is killed, or else of the
simulated model.
About 15 minutes on two cores. Exits with 1 over a bar of a part that is not of the real model.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from operator import itemgetter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.own_platform import own_platform  # noqa: E402
from tests.live.environments import (  # noqa: E402
    MODELS,
    deployment,
)
from tests.live.failures import (  # noqa: E402
    PARTS,
    REAL,
    SIMULATED,
    SUPERVISORD,
    Recovery,
    Watched,
    kill_and_watch,
    kill_supervisord,
)
from toolchain.settings import default_cache  # noqa: E402

TWO_OF_EACH = {**MODELS, REAL: deployment(2, 2)}
FIRST_ANSWER_S, FULL_STRENGTH_S = 5, 60
HEADINGS = ("killed", "first answer", "full strength", "failed of requests", "left over")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only parts whose name contains this")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--explain", action="store_true", help="show what each row waited for")
    options = parser.parse_args()

    with own_platform("live", network="127.78.0", models=TWO_OF_EACH, nodes=2) as platform:
        watched = Watched(platform.checkout, default_cache(), platform.name)
        before = loop_factor()
        print(
            f"Load: one stream over each protocol of {SIMULATED}, or of {REAL} where one of its own"
            " replicas is killed. Both have two replicas.\n"
        )
        print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
        over = False
        for part in PARTS:
            for _ in range(options.runs):
                if options.only in part.name:
                    recovery = asyncio.run(kill_and_watch(watched, part))
                    show(recovery)
                    over |= part.model == SIMULATED and is_over(recovery)
                    if options.explain:
                        explain(recovery)
        if options.only in SUPERVISORD.name:
            show(asyncio.run(kill_supervisord(platform, watched)))
        print(f"\n{measured_on(before)}")
    return int(over)


def is_over(recovery: Recovery) -> bool:
    answer_s, strength_s = recovery.first_answer_s, recovery.full_strength_s
    if answer_s is None or strength_s is None:
        return True
    return answer_s > FIRST_ANSWER_S or strength_s > FULL_STRENGTH_S


def show(recovery: Recovery) -> None:
    cells = (
        recovery.part,
        seconds(recovery.first_answer_s),
        seconds(recovery.full_strength_s),
        f"{len(recovery.failed)} of {recovery.requests}",
        "; ".join(filter(None, [recovery.missing, *recovery.left_shared_memory])) or "nothing",
    )
    print("| " + " | ".join(cells) + " |", flush=True)


def explain(recovery: Recovery) -> None:
    for reason, until_s in sorted(recovery.lacked.items(), key=itemgetter(1)):
        print(f"{until_s:8.1f} s  {reason}", file=sys.stderr, flush=True)


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
