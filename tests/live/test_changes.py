"""A change of a running model's code, under streaming load on both doors."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from tests.live.environments import Platform
from tests.live.processes import processes_of
from tests.live.streaming import Load

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

SIMULATED = ("sim-a", "sim-b")
DRAIN_S = 60


def test_changed_code_of_a_service_rolls_its_models_only_and_loses_no_request(
    platform: Platform,
) -> None:
    before = job_of_each_model(platform)
    replaced = [p for model in SIMULATED for p in replicas_of(platform, before[model])]
    assert len(replaced) >= 3

    async def change() -> tuple[Load, str]:
        async with Load(platform.http, platform.grpc, list(SIMULATED)) as load:
            for model in SIMULATED:
                await load.answered(model, after_s=0)
            with (platform.checkout / "services/engine_sim/engine_sim.py").open("a") as code:
                code.write("\n# A change that does nothing is a change of the code all the same.\n")
            done = await asyncio.to_thread(platform.slipway, "up")
            # Their drain is part of the change.
            _, left = await asyncio.to_thread(psutil.wait_procs, replaced, DRAIN_S)
            assert left == []
        return load, done.stderr

    load, log = asyncio.run(change())
    after = job_of_each_model(platform)
    assert load.failures == [], log[-3000:]
    assert all(len(answers) >= 5 for answers in load.answers.values())
    assert after["smollm2"] == before["smollm2"]
    assert "model-smollm2" not in log
    for model in SIMULATED:
        assert after[model] != before[model]
        assert f"model-{model}" in log


def job_of_each_model(platform: Platform) -> dict[str, str]:
    """The job that runs for each model; of the old and the new one during a change, the new."""
    found = {}
    for job in sorted(platform.nomad("jobs?meta=true"), key=lambda job: int(job["SubmitTime"])):
        if job["Status"] == "running" and (model := (job["Meta"] or {}).get("slipway_model")):
            found[model] = job["ID"]
    return found


def replicas_of(platform: Platform, job: str) -> list[psutil.Process]:
    return [
        psutil.Process(process.pid)
        for process in processes_of(platform.run)
        if process.kind == f"simulator of {job}"
    ]
