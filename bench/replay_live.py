"""The replay against services/engine_sim on this machine, as a markdown table.

    .venv/bin/python bench/replay_live.py [--stack] [--time-scale 0.2] [--keep-trace FILE]

Ten minutes of bursty traffic go to two simulated replicas: once in `slipway replay`'s simulator,
and once to real processes over HTTP, with all times and arrivals scaled by `--time-scale`. The
processes get the requests in turn; with `--stack` they are the replicas of a whole platform (a copy
of this checkout, 127.78.0.0/24), and Envoy chooses. Both sides simulate the same engine: the
comparison shows whether the replay predicts the processes, and nothing about hardware. Exits with 1
over a bar.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
MAKER = ROOT / "services" / "fleet_replay" / "make_trace.py"
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.replay import replayed  # noqa: E402
from bench.simulated_engine import simulated_engine  # noqa: E402
from slipway.config.artifacts import REQUIREMENTS  # noqa: E402
from tests.live.environments import (  # noqa: E402
    Platform,
    copy_tree,
    deployment,
    write_environment,
)
from toolchain.prepare import EnvironmentJob, prepare  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

BARS = {"p50": 0.15, "p95": 0.25}
ADDRESSES = ("127.93.7.2", "127.93.7.3")
PORT = 8000
MODEL = "sim-replayed"
GATEWAY_LIMIT = 64  # requests per replica: the planner's for this engine (planner/models.py)
REQUESTS, DURATION_S, SEED = 560, 600, 3
MAKE_TRACE = (
    *(sys.executable, MAKER, "burstgpt", "--requests", str(REQUESTS)),
    *("--duration-s", str(DURATION_S), "--seed", str(SEED)),
)
# The model of Pulumi.dev.yaml: profile and limits of SmolLM2 on two cores.
ENGINE = {"max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048}
KV_TOKENS = 23_296  # 1 GiB of 46,080 bytes
PROFILE = "cpu-smollm2"
KV_BYTES_PER_TOKEN = 46_080

Line = Mapping[str, Any]
Address = tuple[str, int]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-scale", type=float, default=0.2)
    parser.add_argument("--stack", action="store_true", help="through Envoy of a platform")
    parser.add_argument("--keep-trace", type=Path, help="write the trace here as well")
    arguments = parser.parse_args()
    trace, before = list(make_trace()), loop_factor()
    with tempfile.TemporaryDirectory(prefix="slipway-replay-") as folder:
        path = arguments.keep_trace or Path(folder) / "trace.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in trace), "utf-8")
        replayed = replay(path, "least_request" if arguments.stack else "round_robin")
        where = stack if arguments.stack else processes
        with where(arguments.time_scale, Path(folder)) as addresses:
            times_ms = asyncio.run(send_all(trace, arguments.time_scale, addresses))
    seen_by = "behind Envoy" if arguments.stack else "processes"
    print(f"{measured_on(before)}\n")
    return report(trace, replayed, times_ms, arguments.time_scale, seen_by)


def make_trace() -> Iterator[Line]:
    """BurstGPT-like traffic, with lengths for a small model on a CPU."""
    made = subprocess.run(
        MAKE_TRACE,
        check=True,
        capture_output=True,
        text=True,
    )
    for line in map(json.loads, made.stdout.splitlines()):
        yield {
            "timestamp": line["timestamp"],
            "input_length": 1 + min(line["input_length"] // 4, 1000),
            "output_length": 1 + min(line["output_length"] // 3, 500),
        }


def replay(trace: Path, routing: str) -> dict[str, Any]:
    fleet = {
        "name": "replay",
        "profile": PROFILE,
        "engine": {**ENGINE, "kv_tokens": KV_TOKENS},
        "replicas": {"min": len(ADDRESSES), "max": len(ADDRESSES)},
        "scaling": {"target_inflight_per_replica": 4, "cooldown_s": 60},
        "routing": routing,
        "max_concurrent_requests_per_replica": GATEWAY_LIMIT,
        "goal": {},
    }
    return replayed(trace, fleet)


@contextmanager
def processes(time_scale: float, folder: Path) -> Iterator[Sequence[Address]]:
    """Two replicas without a gateway."""
    cache = default_cache()
    job = EnvironmentJob(name="engine_sim", requirements=ROOT / REQUIREMENTS["engine_sim"])
    python = prepare([job], cache)["engine_sim"] / "bin" / "python"
    with ExitStack() as running:
        for address in ADDRESSES:
            running.enter_context(engine(python, address, time_scale, folder))
        yield [(address, PORT) for address in ADDRESSES]


@contextmanager
def stack(time_scale: float, folder: Path) -> Iterator[Sequence[Address]]:
    """The gateway of a platform with two replicas of the same engine."""
    checkout = folder / "checkout"
    copy_tree(checkout)
    replicas = {MODEL: deployment(len(ADDRESSES), len(ADDRESSES))}
    write_environment(checkout, "live", network="127.78.0", models=replicas, nodes=1)
    model = {
        "name": MODEL,
        "aliases": ["smollm2"],
        "engine": {
            **engine_settings(time_scale),
            "kv_cache": f"{KV_TOKENS * KV_BYTES_PER_TOKEN // 1024}KiB",
        },
    }
    (checkout / "models" / f"{MODEL}.yaml").write_text(yaml.safe_dump(model), "utf-8")
    running = Platform(checkout=checkout, name="live")
    try:
        address = running.up()["gateway"]["grpc"]
        host, port = address.rsplit(":", 1)
        yield [(host, int(port))]
    finally:
        running.down()


def engine_settings(time_scale: float) -> dict[str, Any]:
    """For a model's file and a replica's document: all but the KV cache, whose units differ."""
    return {
        "kind": "sim",
        "architecture": "smollm2-135m",
        "profile": PROFILE,
        "max_model_len": ENGINE["max_model_len"],
        "max_num_seqs": ENGINE["max_num_seqs"],
        "engine_args": {
            "max_num_batched_tokens": ENGINE["max_num_batched_tokens"],
            "time_scale": time_scale,
        },
    }


@contextmanager
def engine(python: Path, address: str, time_scale: float, folder: Path) -> Iterator[None]:
    document = {
        "schema_version": 1,
        "model": "smollm2",
        "aliases": [],
        "engine": {
            **engine_settings(time_scale),
            "kv_cache_bytes": KV_TOKENS * KV_BYTES_PER_TOKEN,
        },
        "load_timeout_s": 60,
        "drain_timeout_s": 10,
    }
    ports = {"OPENAI": PORT, "GRPC": PORT + 1, "HTTP": PORT + 2, "METRICS": PORT + 3}
    with simulated_engine(python, document, address, ports, folder):
        yield


async def send_all(
    trace: Sequence[Line], time_scale: float, addresses: Sequence[Address]
) -> list[tuple[float, float]]:
    """(TTFT, TPOT) of every request in simulated milliseconds, as a client sees them."""
    for address in addresses:
        await wait_for(address)
    began_s = time.perf_counter()
    first_ms = trace[0]["timestamp"]
    targets = itertools.cycle(addresses)
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, line in enumerate(trace):
            due_s = began_s + (line["timestamp"] - first_ms) / 1000 * time_scale
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            tasks.append(group.create_task(send(next(targets), number, line)))
    return [
        (ttft_s * 1000 / time_scale, tpot_s * 1000 / time_scale)
        for ttft_s, tpot_s in (task.result() for task in tasks)
    ]


async def wait_for(address: Address) -> None:
    deadline_s = time.monotonic() + 20
    while True:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def send(address: Address, number: int, line: Line) -> tuple[float, float]:
    """(time to the first token, mean time between tokens) in real seconds."""
    began_s = time.perf_counter()
    first = number * 10_000  # unlike any other prompt
    tokens = range(first, first + line["input_length"])
    body = json.dumps(
        {
            "model": "smollm2",
            "prompt": list(tokens),
            "max_tokens": line["output_length"],
            "stream": True,
        }
    ).encode()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"{address}: {status!r} {await reader.read()!r}")
    first_s = last_s = 0.0
    while text := await reader.readline():
        if text.startswith(b"data: {"):
            last_s = time.perf_counter()
            first_s = first_s or last_s
    writer.close()
    return first_s - began_s, (last_s - first_s) / max(1, line["output_length"] - 1)


def report(
    trace: Sequence[Line],
    replayed: Mapping[str, Any],
    times_ms: Sequence[tuple[float, float]],
    time_scale: float,
    seen_by: str,
) -> int:
    print(
        f"{len(trace)} requests, {DURATION_S / 60:.0f} simulated minutes in"
        f" {DURATION_S * time_scale / 60:.1f}; {len(ADDRESSES)} replicas of {PROFILE}\n"
    )
    print(f"| simulated ms | replay | {seen_by} | difference | bar |\n|---|---|---|---|---|")
    over = False
    for metric, index in (("TTFT", 0), ("TPOT", 1)):
        cut = statistics.quantiles([times[index] for times in times_ms], n=100, method="inclusive")
        for share, seen_ms in (("p50", cut[49]), ("p95", cut[94]), ("p99", cut[98])):
            replay_ms = replayed[f"{metric.lower()}_ms"][share]
            difference = replay_ms / seen_ms - 1
            bar = BARS.get(share) if metric == "TTFT" else None
            over |= bar is not None and abs(difference) > bar
            print(
                f"| {metric} {share} | {replay_ms:,.0f} | {seen_ms:,.0f} | {difference:+.1%} |"
                f" {'' if bar is None else f'{bar:.0%}'} |"
            )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
