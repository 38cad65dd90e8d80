"""The simulated engine and the clients of `slipway bench` on one simulated clock, as a program.

    python on_simulated_clock.py DOCUMENT PORT

For an environment of services/engine_sim/requirements-test.txt. The clock stands still while
anything computes, so a busy machine changes nothing. It prints, for each number of clients, what
they saw and what the engine's own histograms and counters say of the same requests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web
from program.liveness.progress import Progress
from simulated_clock import now_s, simulated
from simulator.core.step_time import load_profile
from simulator.document import read_replica
from simulator.engine import Engine
from simulator.faults import parse_json
from simulator.inflight import InFlight
from simulator.openai.app import make_app

from cli.bench.client_watch import ClientWatch
from cli.bench.figures import figures_of
from cli.bench.load import Run, drive
from cli.bench.openai_door import OpenAiDoor
from cli.bench.workload import Prompt

ADDRESS = "127.93.8.1"
REQUESTS_OF_EACH = 3
INPUT_TOKENS, OUTPUT_TOKENS = 40, 24
INPUT_S = 0.0005  # for loopback; it ends no wait, and is in no time
FAULTS = {"error": 0.25}


def main() -> None:
    document, port = Path(sys.argv[1]), int(sys.argv[2])
    cases = {f"{clients}": (clients, {}) for clients in (1, 8, 32)} | {"faults": (8, FAULTS)}
    found = {
        name: simulated(measured(document, port, clients, faults), input_s=INPUT_S)
        for name, (clients, faults) in cases.items()
    }
    json.dump(found, sys.stdout)


async def measured(
    document: Path, port: int, clients: int, faults: dict[str, Any]
) -> dict[str, Any]:
    async with serving(document, port) as engine:
        engine.set_faults(parse_json(faults))
        door = OpenAiDoor(
            gateway=f"http://{ADDRESS}:{port}",
            model=engine.replica.model,
            timeout_s=3600,
            now_s=now_s,
        )
        prompts = [prompt(number) for number in range(REQUESTS_OF_EACH * clients)]
        run = Run(clients=clients)
        await drive(door, prompts, run, ClientWatch(now_s, now_s))
        return {"seen": asdict(figures_of(run.outcomes)), "told": told(engine)}


def prompt(number: int) -> Prompt:
    """Each of another text: nothing of it is cached."""
    text = " ".join(f"{number}-{word}" for word in range(INPUT_TOKENS))
    return Prompt(text=text, max_tokens=OUTPUT_TOKENS, chat=False, whole_length=True)


@asynccontextmanager
async def serving(document: Path, port: int) -> AsyncIterator[Engine]:
    replica = read_replica(document)
    profiles = Path(sys.modules["simulator"].__file__ or "").parents[1] / "profiles.json"
    profile = load_profile(
        profiles, profile=replica.engine.profile, architecture=replica.engine.architecture
    )
    engine = Engine(replica, profile, Progress.create())
    runner = web.AppRunner(make_app(engine, InFlight()), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, port).start()
    steps = asyncio.create_task(engine.run())
    while not engine.ready:
        await asyncio.sleep(0.1)
    try:
        yield engine
    finally:
        steps.cancel()
        await runner.cleanup()


def told(engine: Engine) -> dict[str, float]:
    """Every sample of the engine's registry by its name, summed over labels."""
    values: dict[str, float] = {}
    for family in engine.metrics.registry.collect():
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                values[sample.name] = values.get(sample.name, 0.0) + sample.value
    return values


if __name__ == "__main__":
    main()
