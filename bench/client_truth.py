"""What `slipway bench` sees against what a simulated engine says of the same requests, as a table.

    .venv/bin/python bench/client_truth.py

A simulated engine with known step times runs as a process of this machine, without a gateway. The
clients of `slipway bench` ask it over both protocols, 1, 8 and 32 at once; its histograms and
counters before and after tell what it did. With a fault, it refuses every fourth request. Exits
with 1 over a bar. Takes about two minutes. tests/unit/cli/bench/test_truth.py compares the same on
a simulated clock, exactly.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.simulated_engine import simulated_engine  # noqa: E402
from cli.bench.client_watch import ClientWatch  # noqa: E402
from cli.bench.figures import Figures, figures_of  # noqa: E402
from cli.bench.load import Run, drive  # noqa: E402
from cli.bench.made_prompts import declared_prompts  # noqa: E402
from cli.bench.openai_door import OpenAiDoor  # noqa: E402
from cli.bench.outcome import Door  # noqa: E402
from cli.bench.triton_door import TritonDoor  # noqa: E402
from slipway.config.artifacts import REQUIREMENTS  # noqa: E402
from toolchain.prepare import EnvironmentJob, prepare  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

BAR = 0.05
CLIENTS = (1, 8, 32)
REQUESTS_OF_EACH, LEAST_REQUESTS, INPUT_TOKENS, OUTPUT_TOKENS = 3, 12, 40, 24
ADDRESS, OPENAI, GRPC = "127.93.9.1", 8000, 8001
OTHER_PORTS = {"HTTP": 8002, "METRICS": 8003}
MODEL, FAULTS = "sim", {"error": 0.25}
START_S, REQUEST_S = 30.0, 300.0
SAMPLE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
HISTOGRAMS = {
    "TTFT": "vllm:time_to_first_token_seconds",
    "TPOT": "vllm:inter_token_latency_seconds",
}
DOCUMENT = {
    "schema_version": 3,
    "model": MODEL,
    "aliases": [],
    "engine": {
        "kind": "sim",
        "architecture": "smollm2-135m",
        "profile": "cpu-smollm2",
        "max_model_len": 2048,
        "max_num_seqs": 32,
        "kv_cache_bytes": 4 << 30,
        "startup_s": 0,
        "engine_args": {},
    },
    "load_timeout_s": 60,
    "drain_timeout_s": 10,
}


def main() -> int:
    before, over = loop_factor(), False
    print(
        "| protocol | clients | figure | bench | engine | difference | bar |\n" + "|---" * 7 + "|"
    )
    with engine():
        for protocol in ("OpenAI", "gRPC"):
            for clients in CLIENTS:
                seen, told, late_ms = asyncio.run(measured(protocol, clients))
                over |= report(protocol, clients, seen, told)
                print(
                    f"| {protocol} | {clients} | event loop late, p99 | {late_ms:.1f} ms | | | |",
                    flush=True,
                )
            httpx.put(f"{url()}/sim/faults", json=FAULTS).raise_for_status()
            seen, told, _ = asyncio.run(measured(protocol, 8))
            httpx.delete(f"{url()}/sim/faults").raise_for_status()
            over |= report_errors(protocol, seen, told)
    print(f"\n{measured_on(before)}")
    return int(over)


def report(protocol: str, clients: int, seen: Figures, told: Mapping[str, float]) -> bool:
    """Prints the means and counts of a step; whether one is over its bar."""
    over = False
    for name, found in (("TTFT", seen.ttft_ms), ("TPOT", seen.tpot_ms)):
        histogram = HISTOGRAMS[name]
        truth_ms = 1000 * told[f"{histogram}_sum"] / told[f"{histogram}_count"]
        mean_ms = found.mean if found else float("nan")
        difference = mean_ms / truth_ms - 1
        over |= not abs(difference) <= BAR
        print(
            f"| {protocol} | {clients} | {name}, mean | {mean_ms:.1f} ms | {truth_ms:.1f} ms |"
            f" {difference:+.1%} | {BAR:.0%} |"
        )
    tokens = (seen.output_tokens or 0) * seen.answered
    return over | (tokens != told["vllm:generation_tokens_total"])


def report_errors(protocol: str, seen: Figures, told: Mapping[str, float]) -> bool:
    failed = sum(seen.errors.values())
    truth = seen.requests - told["vllm:request_success_total"]
    kinds = ", ".join(seen.errors)
    print(f"| {protocol} | 8 | errors ({kinds}) | {failed} | {truth:.0f} | | exact |", flush=True)
    return failed != truth or not failed


async def measured(protocol: str, clients: int) -> tuple[Figures, dict[str, float], float]:
    """What the clients saw, by how much the engine's figures grew, and how late the loop was."""
    door = door_of(protocol)
    count = max(LEAST_REQUESTS, REQUESTS_OF_EACH * clients)
    prompts = declared_prompts(
        INPUT_TOKENS, OUTPUT_TOKENS, count=count + 1, source="", salt=f"{protocol} {clients}"
    ).prompts
    async with door.client() as ask:
        await ask(prompts[count])  # its connection and imports would be in the first time
    run, watch, before = Run(clients=clients), ClientWatch(), samples()
    await drive(door, prompts[:count], run, watch)
    after = samples()
    await door.close()
    lag_ms = watch.load.lag_ms
    grown = {name: value - before[name] for name, value in after.items()}
    return figures_of(run.outcomes), grown, lag_ms.p99 if lag_ms else 0.0


def door_of(protocol: str) -> Door:
    if protocol == "OpenAI":
        return OpenAiDoor(gateway=url(), model=MODEL, timeout_s=REQUEST_S, now_s=time.monotonic)
    return TritonDoor(
        gateway=f"{ADDRESS}:{GRPC}", model=MODEL, timeout_s=REQUEST_S, now_s=time.monotonic
    )


def url() -> str:
    return f"http://{ADDRESS}:{OPENAI}"


def samples() -> dict[str, float]:
    """The engine's sums and counters, summed over their labels."""
    values: dict[str, float] = {}
    for name, value in SAMPLE.findall(httpx.get(f"{url()}/metrics").text):
        values[name] = values.get(name, 0.0) + float(value)
    return values


@contextmanager
def engine() -> Iterator[None]:
    job = EnvironmentJob(name="engine_sim", requirements=ROOT / REQUIREMENTS["engine_sim"])
    python = prepare([job], default_cache())[job.name] / "bin" / "python"
    ports = {"OPENAI": OPENAI, "GRPC": GRPC, **OTHER_PORTS}
    with (
        tempfile.TemporaryDirectory(prefix="slipway-truth-") as folder,
        simulated_engine(python, DOCUMENT, ADDRESS, ports, Path(folder)),
    ):
        wait_for_health()
        yield


def wait_for_health() -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        try:
            if httpx.get(f"{url()}/health").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise SystemExit("the simulated engine does not start")


if __name__ == "__main__":
    sys.exit(main())
