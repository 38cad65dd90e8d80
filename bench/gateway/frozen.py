"""One of three engines stands still under streams, as a table with bars.

    .venv/bin/python bench/gateway/frozen.py [--seconds 30] [--pause 5] [--busy 600]

Starts a platform of its own with three replicas of a simulated model and 20 streams, ten over each
protocol, each client asking again as soon as it has its answer. One engine is stopped (SIGSTOP) for
longer than `stall_s` (10 s), then another one for the length of a pause that kills nothing. Engines
send headers with the first token: what has none is answered by another replica, and what has begun
breaks off when the engine is killed. Last, prompts as long as the model allows run while two other
processes keep the cores busy, which must kill no engine. About twelve minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.own_platform import own_platform  # noqa: E402
from tests.live.environments import Platform, deployment  # noqa: E402
from tests.live.processes import Process, processes_of  # noqa: E402
from tests.live.streaming import Answer, Load  # noqa: E402

MODEL, REPLICAS, STREAMS_PER_PROTOCOL = "sim-a", 3, 10
STALL_S, OUT_BAR_S, ELSEWHERE_BAR_S, GAP_BAR_S = 10, 3.0, 12.0, 3.5
LOOK_S = 0.05
# Of 8,192 (tests/live/environments.py): the answer, the template and a number are there, too.
PROMPT_TOKENS = 8_000
BUSY_PROCESSES, BUSY_STREAMS_PER_PROTOCOL = 2, 4


@dataclass(frozen=True, slots=True)
class Stood:
    """What one engine that stood still did to the requests; seconds after it stopped."""

    out_s: float | None  # until Envoy uses it no longer
    killed: bool
    answers: Sequence[Answer]
    began_s: float
    ended_s: float

    @property
    def lost(self) -> list[Answer]:
        """Requests that failed though nothing of them had been shown."""
        return [each for each in self.answers if each.error and not each.arrived_s]

    @property
    def broken_off(self) -> list[Answer]:
        return [each for each in self.answers if each.error and each.arrived_s]

    @property
    def slowest_elsewhere_s(self) -> float:
        """The longest of those that were asked before it was out and came whole."""
        return max((a.ended_s - a.started_s for a in self.answers if not a.error), default=0.0)

    @property
    def longest_gap_s(self) -> float:
        """Between two answers, of whichever client."""
        ends = sorted(a.ended_s for a in self.answers if not a.error and a.ended_s < self.ended_s)
        times = [self.began_s, *(end for end in ends if end > self.began_s)]
        return max((later - one for one, later in itertools.pairwise(times)), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--pause", type=float, default=5)
    parser.add_argument("--busy", type=float, default=600, help="seconds; 0 leaves it out")
    options = parser.parse_args()
    before = loop_factor()
    models = {MODEL: deployment(REPLICAS, REPLICAS)}
    with own_platform("stalled", network="127.67.0", models=models, nodes=1) as platform:
        stalled = asyncio.run(stop_one(platform, options.seconds))
        paused = asyncio.run(stop_one(platform, options.pause))
        rows = [*_stalled(stalled), *_paused(paused, options.pause)]
        if options.busy:
            rows += asyncio.run(keep_busy(platform, options.busy))
    print("| what | measured | bar |\n|---|---|---|")
    for what, measured, bar, _ in rows:
        print(f"| {what} | {measured} | {bar} |")
    print(f"\n{measured_on(before)}")
    for answer in (*stalled.lost, *paused.lost):
        print(answer.error, file=sys.stderr)
    return int(not all(met for *_, met in rows))


Row = tuple[str, str, str, bool]


def _stalled(stood: Stood) -> list[Row]:
    out_s = stood.out_s if stood.out_s is not None else float("inf")
    slowest_s, gap_s = stood.slowest_elsewhere_s, stood.longest_gap_s
    return [
        ("it is out of use after", f"{out_s:.1f} s", f"{OUT_BAR_S:g} s", out_s <= OUT_BAR_S),
        ("its engine is killed", "yes" if stood.killed else "no", "yes", stood.killed),
        (
            "slowest whole answer meanwhile",
            f"{slowest_s:.1f} s",
            f"{ELSEWHERE_BAR_S:g} s",
            slowest_s <= ELSEWHERE_BAR_S,
        ),
        (
            "longest time without any answer",
            f"{gap_s:.1f} s",
            f"{GAP_BAR_S:g} s",
            gap_s <= GAP_BAR_S,
        ),
        (
            "requests lost that had shown nothing",
            f"{len(stood.lost)} of {len(stood.answers)}",
            "0",
            not stood.lost,
        ),
        ("streams broken off that had begun", str(len(stood.broken_off)), "recorded", True),
    ]


def _paused(stood: Stood, pause_s: float) -> list[Row]:
    failed = len(stood.lost) + len(stood.broken_off)
    what = f"a pause of {pause_s:g} s: killed, failed"
    measured = f"{'1' if stood.killed else '0'}, {failed} of {len(stood.answers)}"
    return [(what, measured, "0, 0", not stood.killed and not failed)]


async def stop_one(platform: Platform, seconds: float) -> Stood:
    load = Load(
        platform.http,
        platform.grpc,
        [MODEL],
        streams_per_protocol=STREAMS_PER_PROTOCOL,
        parameters={"max_tokens": 64},
    )
    async with load:
        await load.answered(MODEL, after=4 * STREAMS_PER_PROTOCOL)
        victim = psutil.Process(_engine(platform).pid)
        victim.suspend()
        began_s = time.monotonic()
        out = asyncio.create_task(_out_of_use(platform, began_s, seconds))
        await asyncio.sleep(seconds)
        ended_s = time.monotonic()
        killed = not victim.is_running()
        if not killed:
            victim.resume()
        out_s = await out
        await load.answered(MODEL, after=load.sent)
    answers = [each for each in load.answers[MODEL] if each.ended_s >= began_s]
    return Stood(out_s, killed, answers, began_s, ended_s)


async def keep_busy(platform: Platform, seconds: float) -> list[Row]:
    """The longest prompts while others take both cores."""
    before = {engine.pid for engine in _engines(platform)}
    load = Load(
        platform.http,
        platform.grpc,
        [MODEL],
        streams_per_protocol=BUSY_STREAMS_PER_PROTOCOL,
        parameters={"max_tokens": 64},
        prompt=_longest_prompt,
    )
    async with load:
        others = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass")
            for _ in range(BUSY_PROCESSES)
        ]
        await asyncio.sleep(seconds)
        for other in others:
            other.kill()
    for other in others:
        await other.wait()
    killed = len(before - {engine.pid for engine in _engines(platform)})
    failed, sent = len(load.failures), len(load.answers[MODEL])
    what = f"prompts of {PROMPT_TOKENS:,} tokens, both cores busy for {seconds:g} s: killed, failed"
    for failure in load.failures[:3]:
        print(failure, file=sys.stderr)
    return [(what, f"{killed}, {failed} of {sent}", "0, 0", not killed and not failed and sent > 0)]


def _longest_prompt(number: int) -> str:
    """Words of eight bytes, which are a token each for the simulated engine."""
    return f"{number:07} " + "another " * PROMPT_TOKENS


def _engine(platform: Platform) -> Process:
    return _engines(platform)[0]


def _engines(platform: Platform) -> list[Process]:
    found = processes_of(platform.run)
    return [each for each in found if each.kind.startswith(f"simulator of model-{MODEL}-")]


async def _out_of_use(platform: Platform, began_s: float, at_most_s: float) -> float | None:
    """Seconds until each cluster of the model has a replica less; None if that does not happen."""
    envoy = next(p for p in processes_of(platform.run) if p.kind == "envoy of envoy")
    transport = httpx.AsyncHTTPTransport(uds=f"/proc/{envoy.pid}/cwd/admin.sock")
    async with httpx.AsyncClient(transport=transport, base_url="http://envoy") as admin:
        while time.monotonic() - began_s < at_most_s:
            text = (await admin.get("/stats?filter=^cluster.model-.*.membership_healthy$")).text
            counts = [int(line.rpartition(" ")[2]) for line in text.splitlines()]
            if counts and max(counts) < REPLICAS:
                return time.monotonic() - began_s
            await asyncio.sleep(LOOK_S)
    return None


if __name__ == "__main__":
    sys.exit(main())
