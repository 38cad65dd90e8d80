"""How evenly the tokens of a model arrive through the gateway, as a markdown table.

    .venv/bin/python bench/streaming.py [-s ENVIRONMENT] [--model smollm2] [--runs 3]

The environment must be up and idle. A run asks 1, 4 or 8 questions at once over one protocol, each
answered with 48 tokens; the table has the medians and worst pauses of the runs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from tests.live.streaming import Answer, grpc_stream, openai_stream  # noqa: E402

Ask = Callable[..., Awaitable[Answer]]

PROTOCOLS: dict[str, Ask] = {"http": openai_stream, "grpc": grpc_stream}
TOKENS = 48
STREAMS = (1, 4, 8)
HEADINGS = ("protocol", "streams", "tokens/s", "first token", "longest pause in a stream")
NUMBERS = itertools.count(time.time_ns())  # every question differs, so that no cache answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--stack", default="dev")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    command = [str(ROOT / "slipway"), "status", "-s", options.stack, "--json"]
    gateway = json.loads(subprocess.check_output(command, text=True))["gateway"]
    before = loop_factor()
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    for protocol, streams in itertools.product(PROTOCOLS, STREAMS):
        runs = [
            asyncio.run(answers(PROTOCOLS[protocol], gateway[protocol], options.model, streams))
            for _ in range(options.runs)
        ]
        print(f"| {protocol} | {streams} | " + " | ".join(row(runs)) + " |", flush=True)
    print(f"\n{measured_on(before)}")


async def answers(ask: Ask, address: str, model: str, streams: int) -> tuple[float, list[Answer]]:
    """Seconds until all answers had ended, and the answers."""
    started = time.monotonic()
    given = await asyncio.gather(
        *(
            ask(address, model, f"Tell story {next(NUMBERS)}.", max_tokens=TOKENS, ignore_eos=True)
            for _ in range(streams)
        )
    )
    # A piece may contain several tokens, but a stream has more than one piece.
    failed = [answer for answer in given if answer.error or len(answer.arrived_s) < 2]
    if failed:
        raise SystemExit(f"{len(failed)} of {streams} streams failed: {failed[0]}")
    return time.monotonic() - started, given


def row(runs: list[tuple[float, list[Answer]]]) -> tuple[str, str, str]:
    rates = [len(given) * TOKENS / seconds for seconds, given in runs]
    firsts = [answer.arrived_s[0] for _, given in runs for answer in given]
    pauses = [
        max(later - earlier for earlier, later in itertools.pairwise(answer.arrived_s))
        for _, given in runs
        for answer in given
    ]
    return (
        f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})",
        f"{statistics.median(firsts) * 1e3:.0f} ms (worst {max(firsts) * 1e3:.0f})",
        f"{statistics.median(pauses) * 1e3:.0f} ms (worst {max(pauses) * 1e3:.0f})",
    )


if __name__ == "__main__":
    main()
