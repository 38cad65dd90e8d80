"""Counts while the autoscaler cannot see the load, as a markdown table.

    .venv/bin/python bench/blind_scaler.py [--seconds 180]

Starts a platform of its own with one simulated model, scales it to two replicas by load, and blinds
the autoscaler in two ways while the load goes on: Prometheus is stopped, and Envoy's statistics
become unreachable. Bar: the count does not change, and no request fails.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.own_platform import own_platform  # noqa: E402
from tests.live.blindness import (  # noqa: E402
    counts_over,
    envoy_not_scraped,
    prometheus_stopped,
    wait_until_blind,
    wait_until_seeing,
)
from tests.live.environments import (  # noqa: E402
    SMALL_MODELS,
    Platform,
)
from tests.live.models import job_of_each_model, wait_for_count  # noqa: E402
from tests.live.streaming import Load  # noqa: E402

MODEL = "sim-a"
STREAMS_PER_PROTOCOL = 16
SLOW = {"slipway_fault": "slow=10"}
Blinding = Callable[[Platform], AbstractContextManager[None]]
WAYS: dict[str, Blinding] = {
    "Prometheus stopped": prometheus_stopped,
    "Envoy's statistics unreachable": envoy_not_scraped,
}
HEADINGS = (
    "",
    "seconds",
    "counts seen (bar: 2)",
    "failed of requests (bar: 0)",
    "seen again after",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    seconds: float = parser.parse_args().seconds
    before, kept = loop_factor(), True
    with own_platform("blind", network="127.87.0", models=SMALL_MODELS, nodes=1) as platform:
        print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
        for name, blinded in WAYS.items():
            counts, load, again_s = asyncio.run(under_load(platform, blinded, seconds))
            requests = sum(map(len, load.answers.values()))
            cells = (
                name,
                f"{seconds:.0f}",
                ", ".join(map(str, sorted(counts))),
                f"{len(load.failures)} of {requests}",
                f"{again_s:.0f} s",
            )
            print("| " + " | ".join(cells) + " |", flush=True)
            kept = kept and counts == {2} and not load.failures
    print(f"\n{measured_on(before)}")
    return int(not kept)


async def under_load(
    platform: Platform, blinded: Blinding, seconds: float
) -> tuple[set[int], Load, float]:
    """(the counts while blind, the load, seconds until the autoscaler could see again)"""
    job = job_of_each_model(platform)[MODEL]
    load = Load(
        platform.http,
        platform.grpc,
        [MODEL],
        streams_per_protocol=STREAMS_PER_PROTOCOL,
        parameters=SLOW,
    )
    async with load:
        await asyncio.to_thread(wait_for_count, platform, job, 2)
        with blinded(platform):
            await asyncio.to_thread(wait_until_blind, platform)
            counts = await asyncio.to_thread(counts_over, platform, job, seconds)
        ended_s = time.monotonic()
        await asyncio.to_thread(wait_until_seeing, platform)
        again_s = time.monotonic() - ended_s
    return counts, load, again_s


if __name__ == "__main__":
    sys.exit(main())
