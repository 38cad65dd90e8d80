"""The simulated replicas that all gateways share, and what their engines have counted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from bench.gateway.load import Address
from bench.gateway.processes import last_lines, running
from toolchain.prepare import EnvironmentJob, prepare

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "services/engine_sim"

NETWORK = "127.82.0"  # of everything that this benchmark starts
COUNT = 4
PORT = 8000
MODEL = "peers"
# A quarter of the words of the largest trace that can be cached, and less than half of the others'
# that have groups or conversations.
KV_TOKENS = 49_152
KV_BYTES_PER_TOKEN = 131_072  # of llama-3.1-8b (services/engine_sim/profiles.json)
PROFILE = "h100-fp8-llama-3.1-8b"
TIME_SCALE = 0.2  # else the waiting of one request at a time would take hours
READY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Since an engine's start: prompt tokens looked up, those found cached, requests answered."""

    queries: float
    hits: float
    requests: float

    def __sub__(self, before: Counters) -> Counters:
        return Counters(
            queries=self.queries - before.queries,
            hits=self.hits - before.hits,
            requests=self.requests - before.requests,
        )


def described() -> str:
    return (
        f"{COUNT} simulated replicas of {PROFILE}, all their times multiplied by {TIME_SCALE:g};"
        f" a KV cache of {KV_TOKENS:,} tokens each, prefix caching on"
    )


@contextmanager
def replicas(cache: Path, folder: Path) -> Iterator[list[Address]]:
    """They are ready."""
    job = EnvironmentJob(name="engine_sim", requirements=SERVICE / "requirements.txt")
    python = prepare([job], cache)["engine_sim"] / "bin/python"
    addresses = [(f"{NETWORK}.{11 + number}", PORT) for number in range(COUNT)]
    with ExitStack() as stack:
        started = [stack.enter_context(_replica(python, host, folder)) for host, _ in addresses]
        for (host, port), process in zip(addresses, started, strict=True):
            _wait_for(f"http://{host}:{port}/health", process, folder / f"{host}.log")
        yield addresses


def counted(addresses: Sequence[Address]) -> list[Counters]:
    return [_counters(httpx.get(f"http://{host}:{port}/metrics").text) for host, port in addresses]


@contextmanager
def _replica(python: Path, host: str, folder: Path) -> Iterator[psutil.Popen]:
    document = folder / f"{host}.json"
    document.write_text(json.dumps(_document()))
    environment = {"SLIPWAY_ADDRESS": host} | {
        f"SLIPWAY_PORT_{name}": str(PORT + number)
        for number, name in enumerate(("OPENAI", "GRPC", "HTTP", "METRICS"))
    }
    command: list[str | Path] = [python, SERVICE / "engine_sim.py", "--document", document]
    with running(command, log=folder / f"{host}.log", environment=environment) as process:
        yield process


def _document() -> dict[str, object]:
    return {
        "schema_version": 3,
        "model": MODEL,
        "aliases": [],
        "engine": {
            "kind": "sim",
            "architecture": "llama-3.1-8b",
            "profile": PROFILE,
            "max_model_len": 32_768,
            "max_num_seqs": 64,
            "kv_cache_bytes": KV_TOKENS * KV_BYTES_PER_TOKEN,
            "startup_s": 0,
            "engine_args": {"max_num_batched_tokens": 8192, "time_scale": TIME_SCALE},
        },
        "load_timeout_s": 60,
        "drain_timeout_s": 5,
    }


def _wait_for(url: str, process: psutil.Popen, log: Path) -> None:
    deadline_s = time.monotonic() + READY_S
    while True:
        try:
            if httpx.get(url).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        if time.monotonic() > deadline_s or process.poll() is not None:
            raise SystemExit(f"a simulated replica does not answer:\n{last_lines(log)}")
        time.sleep(0.05)


def _counters(page: str) -> Counters:
    def total(name: str) -> float:
        samples = re.findall(rf"^vllm:{name}_total\{{.*\}} (\S+)$", page, re.MULTILINE)
        if not samples:
            raise ValueError(f"no vllm:{name} in the engine's metrics")
        return sum(map(float, samples))

    return Counters(
        queries=total("prefix_cache_queries"),
        hits=total("prefix_cache_hits"),
        requests=total("request_success"),
    )
