"""A simulated engine (services/engine_sim) as a replica: it speaks the APIs of a real one."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from control_plane.routing import Endpoint

from support.processes import running
from support.waiting import ADDRESS, eventually, free_port

_PROGRAM = Path(__file__).parents[3] / "engine_sim" / "engine_sim.py"
_LISTENERS = ("OPENAI", "GRPC", "HTTP", "METRICS")


@contextlib.asynccontextmanager
async def simulated_engine(folder: Path, model: str) -> AsyncIterator[Endpoint]:
    """One that answers as fast as it can; it is ready."""
    folder.mkdir()
    document = folder / "replica.json"
    document.write_text(json.dumps(_document(model)), encoding="utf-8")
    ports = {f"SLIPWAY_PORT_{name}": str(free_port()) for name in _LISTENERS}
    environment = {**os.environ, "SLIPWAY_ADDRESS": ADDRESS, **ports}
    command = [sys.executable, str(_PROGRAM), "--document", str(document)]
    endpoint = Endpoint(ADDRESS, int(ports["SLIPWAY_PORT_OPENAI"]), True)
    async with running(*command, log=folder / "log", environment=environment):
        await eventually(lambda: _is_ready(endpoint), "the simulated engine is ready")
        yield endpoint


async def _is_ready(endpoint: Endpoint) -> bool:
    url = f"http://{endpoint.address}:{endpoint.port}/health"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def _document(model: str) -> dict[str, object]:
    return {
        "schema_version": 3,
        "model": model,
        "aliases": [],
        "engine": {
            "kind": "sim",
            "architecture": "llama-3.1-8b",
            "profile": "h100-fp8",
            "max_model_len": 4096,
            "max_num_seqs": 64,
            "kv_cache_bytes": 8 << 30,
            "startup_s": 0,
            "engine_args": {"time_scale": 0},
        },
        "load_timeout_s": 60,
        "drain_timeout_s": 5,
    }
