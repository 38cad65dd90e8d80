"""The time to replay an hour of 24,000 requests, beside dynamo.replay, as a markdown table.

    .venv/bin/python bench/replay.py [--without-dynamo]

The trace is Mooncake-like (services/fleet_replay/make_trace.py mooncake --seed 7). `dynamo.replay`
comes from the package index, into an environment of its own; the table says if it could not be
installed. Both simulate the same four workers with the same KV memory, but with different engine
models, so their latencies are for orientation only. Exits with 1 over the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "services" / "fleet_replay"
sys.path[:0] = [str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

BAR_S = 10.0
REQUESTS, DURATION_S, SEED = 24_000, 3600, 7
WORKERS, KV_TOKENS = 4, 400_000
DYNAMO = ("ai-dynamo==1.3.1", "pydantic<=2.13")
MAKE_TRACE = (
    *(sys.executable, PROGRAMS / "make_trace.py", "mooncake", "--requests", str(REQUESTS)),
    *("--duration-s", str(DURATION_S), "--seed", str(SEED)),
)
BLOCK_SIZES = (64, 16)  # what such a trace gets by default, and vLLM's


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-dynamo", action="store_true")
    arguments = parser.parse_args()
    before = loop_factor()
    with tempfile.TemporaryDirectory(prefix="slipway-replay-") as folder:
        trace = Path(folder) / "trace.jsonl"
        make_trace(trace)
        rows, seconds = [], {}
        for size in BLOCK_SIZES:
            seconds[size], fleet = timed_replay(trace, size)
            rows.append(
                f"| slipway, KV blocks of {size} tokens | {seconds[size]:.1f} s |"
                f" {fleet['cpu_s']:.1f} s | {fleet['prefix_cache_hit_share']:.3f} |"
                f" {fleet['ttft_ms']['mean']:.1f} |"
                f" {fleet['ttft_ms']['p50']:.1f} | {fleet['ttft_ms']['p99']:.1f} |"
                f" {fleet['tpot_ms']['mean']:.2f} |"
            )
        if not arguments.without_dynamo:
            rows.append(dynamo_row(trace))
    print(f"{measured_on(before)}, load {os.getloadavg()[0]:.1f} at the end\n")
    print("| | wall time | CPU time | KV reuse | TTFT mean ms | p50 | p99 | TPOT mean ms |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return int(seconds[BLOCK_SIZES[0]] > BAR_S)


def make_trace(path: Path) -> None:
    with path.open("w") as file:
        subprocess.run(
            MAKE_TRACE,
            check=True,
            stdout=file,
        )


def timed_replay(trace: Path, block_size: int) -> tuple[float, dict[str, Any]]:
    """Seconds of the whole process, and its result."""
    engine = {
        "max_model_len": 131_072,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "kv_tokens": KV_TOKENS,
        "block_size": block_size,
    }
    fleet = {
        "name": "bench",
        "profile": "h100-fp8-llama-3.1-8b",
        "engine": engine,
        "replicas": {"min": WORKERS, "max": WORKERS},
        "scaling": {"target_inflight_per_replica": 128, "cooldown_s": 60},
        "routing": "round_robin",
        "max_concurrent_requests_per_replica": 10_000,
        "goal": {},
    }
    began_s, cpu_s = time.perf_counter(), children_cpu_s()
    result = replayed(trace, fleet)
    seconds, cpu_s = time.perf_counter() - began_s, children_cpu_s() - cpu_s
    return seconds, {**result, "cpu_s": cpu_s}


def replayed(trace: Path, fleet: Mapping[str, Any]) -> dict[str, Any]:
    """What services/fleet_replay says of one fleet (schemas/replay_result.schema.json)."""
    document = {"schema_version": 1, "trace": {"path": str(trace)}, "fleets": [fleet]}
    finished = subprocess.run(
        [sys.executable, "-E", "-s", PROGRAMS / "replay.py"],
        input=json.dumps(document),
        capture_output=True,
        check=True,
        text=True,
    )
    result: dict[str, Any] = json.loads(finished.stdout)["fleets"][0]
    return result


def children_cpu_s() -> float:
    """Processor time of ended child processes, which unlike wall time excludes other programs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def dynamo_row(trace: Path) -> str:
    python = default_cache() / "bench" / "ai-dynamo-1.3.1" / "bin" / "python"
    try:
        install_dynamo(python)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or str(error)).strip().splitlines()[-1]
        return f"| dynamo.replay: not installed ({reason}) | | | | | | | |"
    saved = trace.with_suffix(".report.json")
    began_s, cpu_s = time.perf_counter(), children_cpu_s()
    subprocess.run(
        (
            *(python, "-m", "dynamo.replay", trace, "--report-json", saved),
            *("--trace-format", "mooncake", "--trace-block-size", "512"),
            *("--replay-mode", "offline", "--router-mode", "round_robin"),
            *("--num-workers", str(WORKERS)),
            *("--extra-engine-args", json.dumps(dynamo_engine())),
        ),
        check=True,
        capture_output=True,
    )
    seconds, cpu_s = time.perf_counter() - began_s, children_cpu_s() - cpu_s
    found = json.loads(saved.read_text("utf-8"))
    return (
        f"| dynamo.replay (ai-dynamo 1.3.1), blocks of 64 | {seconds:.1f} s |"
        f" {cpu_s:.1f} s | {found['prefix_cache_reused_ratio']:.3f} |"
        f" {found['mean_ttft_ms']:.1f} | {found['median_ttft_ms']:.1f} |"
        f" {found['p99_ttft_ms']:.1f} | {found['mean_tpot_ms']:.2f} |"
    )


def dynamo_engine() -> dict[str, int]:
    return {"block_size": 64, "num_gpu_blocks": KV_TOKENS // 64}


def install_dynamo(python: Path) -> None:
    """Raises CalledProcessError if the package index does not have it."""
    if not python.exists():
        folder = python.parents[1]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *DYNAMO],
        check=True,
        capture_output=True,
        text=True,
    )


if __name__ == "__main__":
    sys.exit(main())
