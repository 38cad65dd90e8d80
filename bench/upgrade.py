"""A running environment of an earlier revision, upgraded under load, as a markdown table.

    .venv/bin/python bench/upgrade.py [--from REVISION]

Takes the revision from this repository's history, brings up a small environment with it (two
simulated models with two replicas each, one of them replaced replica by replica), puts this
checkout's files in its place, as `git pull` does, and runs `slipway up` under streaming load over
both protocols. Bars: no request fails, Envoy goes on as the same process, nothing is replaced,
deleted or restarted that has not changed, a second preview is empty, and `down` leaves nothing.
About 2 minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.revisions import BEFORE_TURNS, described, extract  # noqa: E402
from tests.live.environments import Platform, deployment, write_environment  # noqa: E402
from tests.live.footprint import footprint, shared_memory_of  # noqa: E402
from tests.live.upgrade import Upgrade, bounded_up, upgrade_under_load  # noqa: E402

NAME, NETWORK = "upgraded", "127.89.0"
MODELS = {
    "sim-a": deployment(2, 2),
    "sim-tight": deployment(2, 2) | {"pool": "tight", "surge": 0},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", default=BEFORE_TURNS)
    revision: str = parser.parse_args().revision
    origin, before = described(revision), loop_factor()
    with platform_of(revision) as platform:
        upgrade = asyncio.run(upgrade_under_load(platform, list(MODELS)))
        shared = shared_memory_of(platform)
        platform.down()
        left = [each for found in footprint(platform, shared).values() for each in found]
    show(upgrade, left)
    print(f"\nFrom {origin}.\n{measured_on(before)}")
    return int(not upgrade.met or bool(left))


@contextmanager
def platform_of(revision: str) -> Iterator[Platform]:
    """An environment that the files of a revision brought up, in a folder of their own."""
    folder = Path(tempfile.mkdtemp(prefix="slipway-bench-"))
    extract(revision, folder)
    write_environment(folder, NAME, network=NETWORK, models=MODELS, nodes=1)
    platform = Platform(checkout=folder, name=NAME, network=NETWORK)
    try:
        yield dataclasses.replace(platform, first_up=bounded_up(platform))
    finally:
        platform.down()
        shutil.rmtree(folder)


def show(upgrade: Upgrade, left: list[str]) -> None:
    load = upgrade.load
    requests = sum(map(len, load.answers.values()))
    rows = [
        ("failed of requests", f"{len(load.failures)} of {requests}", "0"),
        ("Envoy: the same allocation and process", yes_no(upgrade.envoy_kept), "yes"),
        *((f"Pulumi: {each}", listed(names), "") for each, names in upgrade.operations.items()),
        ("operations as previewed", yes_no(upgrade.as_previewed), "yes"),
        ("replaced or deleted without need", listed(upgrade.removed_without_need), "nothing"),
        ("processes that ended", listed(each.kind for each in upgrade.ended), ""),
        ("ended without need", listed(upgrade.ended_without_need), "nothing"),
        ("`up` took", f"{upgrade.up_s:.1f} s", ""),
        ("second preview empty", yes_no(upgrade.empty_preview), "yes"),
        ("left after `down`", listed(left), "nothing"),
    ]
    print("| | measured | bar |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    for failure in load.failures:
        print(failure, file=sys.stderr)


def yes_no(value: bool) -> str:
    return "yes" if value else "no"


def listed(names: Iterable[str]) -> str:
    counts = sorted(Counter(names).items())
    several = (f"{name} ({count})" if count > 1 else name for name, count in counts)
    return ", ".join(several) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
