"""The time of a pull request's comment on 5,000 changing resources, as a markdown table.

    .venv/bin/python bench/comment.py

Needs no tools and no network. Exits with 1 over the bar.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from slipway.diff.comment import render  # noqa: E402
from slipway.diff.digest import read_digest  # noqa: E402
from slipway.diff.json_text import read_json  # noqa: E402
from tests.unit.diff import digests  # noqa: E402

RESOURCES = 5000
BAR_S = 2.0  # of processor time, at the machine's usual speed


def main() -> int:
    before = loop_factor()
    print("| preview | processor time | over the loop factor | characters |\n|---|---|---|---|")
    over = False
    for make in (digests.many, digests.all_deleted):
        text = json.dumps(make(RESOURCES))
        started_s = time.process_time()
        comment = render(read_digest(read_json(text)), None, digests.STAMP)
        took_s = time.process_time() - started_s
        at_usual_speed_s = took_s / loop_factor()
        over |= at_usual_speed_s > BAR_S
        cells = (make.__name__, f"{took_s:.1f} s", f"{at_usual_speed_s:.1f} s", f"{len(comment):,}")
        print("| " + " | ".join(cells) + " |")
    print(f"\n{measured_on(before)}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
