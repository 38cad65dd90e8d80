"""Rows of bench/service_times.py: the simulated engine."""

from __future__ import annotations

import time

import psutil
from engine_sim_process import SimProcess
from row import row

TOKENS = 200
TOKEN_S = 0.0052  # of the profile, alone in the engine


def ready() -> None:
    with SimProcess() as replica:
        used = psutil.Process(replica.process.pid).cpu_times()
    row("ready, processor time", used.user + used.system, bar_s=2)


def ends() -> None:
    with SimProcess() as replica:
        began_s = time.monotonic()
        replica.terminate()
        replica.process.wait()
    row("without requests, from SIGTERM to its end", time.monotonic() - began_s, bar_s=1)


def pace() -> None:
    with SimProcess() as replica:
        for name, fault, expected_s in (
            (f"{TOKENS} tokens", None, TOKENS * TOKEN_S),
            (f"{TOKENS} tokens with the fault slow=2", "slow=2", 2 * TOKENS * TOKEN_S),
        ):
            headers = {"x-slipway-fault": fault} if fault else {}
            body = {"model": "llama", "prompt": "x", "max_tokens": TOKENS}
            began_s = time.monotonic()
            replica.call(replica.openai + "/v1/completions", body, headers=headers)
            taken_s = time.monotonic() - began_s
            row(f"{name} (simulated: {expected_s:.2f} s)", taken_s, bar_s=1.2 * expected_s)


if __name__ == "__main__":
    ready()
    ends()
    pace()
