"""The gate before old jobs go (services/operator): a real control plane with a real Envoy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hang import HANG_S
from support.consul import Consul, consul
from support.fake_replica import FakeReplica
from support.load import load
from support.platform import ROUTE, Platform, started
from support.waiting import ADDRESS, eventually

pytestmark = pytest.mark.binaries

ROOT = Path(__file__).parents[4]
PROGRAM = ROOT / "services/operator/routes_acknowledged.py"
GATE_SCHEMA = json.loads((ROOT / "schemas/routes-gate.schema.json").read_text(encoding="utf-8"))
ANSWER_SCHEMA = json.loads((ROOT / "schemas/acknowledged.schema.json").read_text(encoding="utf-8"))
OLD, NEW = "model-tiny-1", "model-tiny-2"
GIVEN_DEADLINE_S = 3  # of a gate that gives up
MOVED = {**ROUTE, "backends": [{"service": NEW}]}


@dataclass
class Gate:
    """A run of the gate that wants the new route."""

    process: asyncio.subprocess.Process

    @property
    def open(self) -> bool:
        return self.process.returncode is not None

    async def ended(self) -> tuple[int | None, str]:
        """Its exit code, and what it said to its user."""
        _, said = await asyncio.wait_for(self.process.communicate(), HANG_S)
        return self.process.returncode, said.decode()


async def gate(agent: Consul, *, deadline_s: int = 300) -> Gate:
    document = {
        "schema_version": 1,
        "consul": agent.url,
        "routes": {"tiny": [NEW]},
        "envoys": 1,
        "deadline_s": deadline_s,
    }
    secrets = {"schema_version": 1, "nomad_token": "none", "consul_token": "none"}
    jsonschema.validate(document, GATE_SCHEMA)
    jsonschema.validate(secrets, GATE_SCHEMA["$defs"]["secrets"])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", str(PROGRAM), "apply"),
        env={**os.environ, "SLIPWAY_DOCUMENT": json.dumps(document)},
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(secrets).encode())
    process.stdin.close()
    return Gate(process)


@contextlib.asynccontextmanager
async def serving_blue(folder: Path, blue: FakeReplica) -> AsyncIterator[Platform]:
    """`tiny` is served by blue, and Consul knows where the control plane is."""
    async with consul(folder) as agent, started(folder, agent) as platform:
        await agent.register("xds-http", ADDRESS, platform.http_port, check="passing")
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")
        yield platform


async def test_the_gate_opens_once_envoy_has_left_the_old_service(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    async with serving_blue(tmp_path, blue) as platform:
        await platform.register(green, service=NEW)
        waiting = await gate(platform.consul)
        async with load(platform.url, "tiny") as outcomes:
            await eventually(lambda: outcomes["blue"] > 100, "traffic flows")
            assert not waiting.open
            assert await routes(platform) == {"tiny": [OLD]}

            await platform.consul.put_route(MOVED)
            assert await waiting.ended() == (0, "")
            assert await routes(platform) == {"tiny": [NEW]}
            before = outcomes["green"]
            await blue.__aexit__()  # as a job does that nobody waits for any more
            await eventually(lambda: outcomes["green"] > before + 100, "traffic flows on")

        assert set(outcomes) == {"blue", "green"}


async def test_a_frozen_control_plane_keeps_the_gate_shut_and_the_next_run_continues(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    async with serving_blue(tmp_path, blue) as platform:
        await platform.register(green, service=NEW)
        platform.control_plane.send_signal(signal.SIGSTOP)
        try:
            await platform.consul.put_route(MOVED)
            code, said = await (await gate(platform.consul, deadline_s=GIVEN_DEADLINE_S)).ended()
            patient = await gate(platform.consul)
            assert (await platform.complete())[1]["marker"] == "blue"
            assert not patient.open
        finally:
            platform.control_plane.send_signal(signal.SIGCONT)

        assert code == 1
        assert f"routes: gave up after {GIVEN_DEADLINE_S} s: " in said
        assert f":{platform.http_port}/acknowledged: timed out" in said
        assert "Nothing was removed" in said
        assert await patient.ended() == (0, "")
        assert (await platform.complete())[1]["marker"] == "green"


async def routes(platform: Platform) -> Any:
    """Of the one Envoy."""
    document = await platform.ask("/acknowledged")
    jsonschema.validate(document, ANSWER_SCHEMA)
    (envoy,) = document["envoys"]
    return envoy["routes"]
