"""The planner's queue against the simulated engine's, as a markdown table.

    .venv/bin/python bench/queueing.py [--requests 1200] [--seeds 2]

Both have the step times of an H100 with llama-3.1-8b, so what differs is only the arithmetic of the
queue (src/slipway/planner/engines/vllm/latency/queueing.py). Simulated, not measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from slipway.planner.engines.adapter import LoadShape  # noqa: E402
from slipway.planner.engines.vllm.latency.queueing import sequences_p95  # noqa: E402
from tests.unit.planner.engines.vllm.latency.simulated_queue import replica_under, simulate  # noqa: E402

LENGTHS = ((256, 64), (512, 16), (1024, 64), (1024, 256), (2048, 512), (4096, 128), (8192, 128))
PROMPT_SHARES = (0.2, 0.4, 0.5, 0.6, 0.7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    print("| tokens | share of prompts | requests/s | TTFT | TTFT p95 | TPOT |")
    print("|---|---|---|---|---|---|")
    for lengths in LENGTHS:
        for share in PROMPT_SHARES:
            if row := compared(*lengths, share, arguments.requests, arguments.seeds):
                print(row, flush=True)


def compared(
    input_tokens: int, output_tokens: int, share: float, requests: int, seeds: int
) -> str | None:
    """None if the replica cannot hold that many sequences at once."""
    load = LoadShape(requests_per_s=0, input_tokens=input_tokens, output_tokens=output_tokens)
    replica = replica_under(load)
    rate = share / replica.prompt_s
    point = replica.under(rate)
    if sequences_p95(point.sequences) > replica.most_sequences:
        return None
    load = LoadShape(requests_per_s=rate, input_tokens=input_tokens, output_tokens=output_tokens)
    runs = [simulate(load, requests=requests, seed=seed) for seed in range(1, seeds + 1)]
    pairs = [
        (point.ttft_ms, fmean(run.ttft_ms for run in runs)),
        (point.ttft_p95_ms, fmean(run.ttft_p95_ms for run in runs)),
        (point.tpot_ms, fmean(run.tpot_ms for run in runs)),
    ]
    cells = " | ".join(
        f"{ours:.0f} / {engine:.0f} ms, {ours / engine - 1:+.0%}" for ours, engine in pairs
    )
    return f"| {input_tokens} + {output_tokens} | {share:.0%} | {rate:.1f} | {cells} |"


if __name__ == "__main__":
    main()
