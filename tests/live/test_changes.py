"""Changes of running models, under streaming load over both protocols."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

import psutil
import pytest

from tests.live.environments import CANNOT_START, Platform
from tests.live.failures import PAUSE_S
from tests.live.frozen_control_plane import change_while_frozen
from tests.live.models import (
    backends,
    drained,
    engines_of,
    job_of_each_model,
    jobs,
    replicas_of,
    serving,
)
from tests.live.streaming import Load

pytestmark = pytest.mark.live

SIMULATED = ("sim-a", "sim-b", "sim-tight")
CHANGED = re.compile(r" [+~-]+ +\S+:\S+:\S+ (\S+) ")  # a line of Pulumi's about a resource


def _change_under_load(
    platform: Platform,
    load: Load,
    edit: Callable[[], None],
    *,
    replaced: Sequence[psutil.Process],
    answers: int = 0,
) -> str:
    """Applies `edit` once every model answers the load, which goes on until each has given so many
    `answers`; returns the output of `up`."""

    async def run() -> str:
        async with load:
            for model in load.answers:
                await load.answered(model)
            edit()
            done = await asyncio.to_thread(platform.slipway, "up")
            await drained(replaced)  # their drain is part of the change
            for model in load.answers:
                await load.answers_of(model, answers)
        return done.stdout + done.stderr

    return asyncio.run(run())


def test_a_changed_flag_of_the_real_model_loses_no_request_and_changes_nothing_else(
    platform: Platform,
) -> None:
    model, other = "smollm2", "sim-a"
    before = job_of_each_model(platform)
    replaced = replicas_of(platform, before[model])
    assert len(replaced) == 1

    load = Load(
        platform.http, platform.grpc, [model, other], streams_per_protocol=1, pause_s=PAUSE_S[model]
    )
    log = _change_under_load(
        platform,
        load,
        lambda: platform.edit_model(model, max_num_seqs=16),
        replaced=replaced,
    )
    after = job_of_each_model(platform)
    assert load.failures == [], log[-3000:]
    assert all(len(answers) >= 5 for answers in load.answers.values())
    assert after == {**before, model: after[model]}
    assert after[model] != before[model]
    resources = {"model-smollm2", "model-smollm2-ready", "model-smollm2-route"}
    assert set(CHANGED.findall(log)) == resources | {"routes-acknowledged"}, log
    (engine,) = engines_of(platform, after[model])
    assert "--max-num-seqs 16" in " ".join(engine.cmdline())


def test_a_changed_flag_of_a_simulated_model_loses_no_request_and_touches_only_its_model(
    platform: Platform,
) -> None:
    replaced = replicas_of(platform, job_of_each_model(platform)["sim-a"])
    load = Load(platform.http, platform.grpc, ["sim-a", "sim-b"], parameters={"max_tokens": 4})
    log = _change_under_load(
        platform,
        load,
        lambda: platform.edit_model("sim-a", max_num_seqs=16),
        replaced=replaced,
        answers=500,
    )
    assert load.failures == []
    assert all(len(answers) >= 500 for answers in load.answers.values())
    assert "model-sim-b" not in log
    assert "model-smollm2" not in log


def test_a_change_while_the_control_plane_stands_still_waits_and_loses_no_request(
    platform: Platform,
) -> None:
    """Also of a model whose replicas are replaced one by one.

    Not of sim-b: the autoscaler may still be taking back a replica that another test's load added.
    """
    models = ["sim-a", "sim-tight"]
    change = asyncio.run(change_while_frozen(platform, models, frozen_s=30, max_num_seqs=24))
    assert change.load.failures == [], change.log[-3000:]
    assert all(len(change.load.answers[model]) >= 5 for model in models)
    assert change.moved, "the control plane went on before the route moved"
    assert change.kept, "an old replica went before Envoy could know that it goes"


def test_changed_code_of_a_service_rolls_its_models_only_and_loses_no_request(
    platform: Platform,
) -> None:
    before = job_of_each_model(platform)
    replaced = [p for model in SIMULATED for p in replicas_of(platform, before[model])]
    assert len(replaced) >= 5

    def change_code() -> None:
        with (platform.checkout / "services/engine_sim/engine_sim.py").open("a") as code:
            code.write("\n# A change that does nothing is a change of the code all the same.\n")

    load = Load(platform.http, platform.grpc, list(SIMULATED))
    log = _change_under_load(platform, load, change_code, replaced=replaced)
    after = job_of_each_model(platform)
    assert load.failures == [], log[-3000:]
    assert all(len(answers) >= 5 for answers in load.answers.values())
    assert after["smollm2"] == before["smollm2"]
    assert "model-smollm2" not in log
    for model in SIMULATED:
        assert after[model] != before[model]
        assert f"model-{model}" in log


def test_a_spec_that_cannot_start_leaves_the_old_one_serving_and_can_be_taken_back(
    platform: Platform,
) -> None:
    file = platform.checkout / "models" / "sim-b.yaml"
    before = file.read_text()
    platform.edit_model("sim-b", **CANNOT_START)

    async def fail_and_take_back() -> Load:
        async with Load(platform.http, platform.grpc, ["sim-b"]) as load:
            failed = await asyncio.to_thread(platform.slipway, "up", check=False)
            assert failed.returncode == 1
            assert "fails as often as it starts" in failed.stderr
            file.write_text(before)
            await asyncio.to_thread(platform.slipway, "up")
            await load.answered("sim-b", after=load.sent)
        return load

    job = job_of_each_model(platform)["sim-b"]
    load = asyncio.run(fail_and_take_back())
    assert load.failures == []
    assert job_of_each_model(platform)["sim-b"] == job
    assert len(serving(platform, job)) >= 1
    assert backends(platform, "sim-b") == [job]
    platform.slipway("preview", "--expect-no-changes")


def test_a_full_pool_exchanges_replica_by_replica_and_takes_a_failed_change_back(
    platform: Platform,
) -> None:
    model = "sim-tight"
    file = platform.checkout / "models" / f"{model}.yaml"
    old = job_of_each_model(platform)[model]
    replaced = replicas_of(platform, old)
    assert len(serving(platform, old)) == 2

    async def change() -> tuple[Load, str, str]:
        async with Load(platform.http, platform.grpc, [model]) as load:
            await load.answered(model)
            good = file.read_text()
            platform.edit_model(model, **CANNOT_START)
            failed = await asyncio.to_thread(platform.slipway, "up", check=False)
            assert failed.returncode == 1
            assert f"the replicas of {old} serve" in failed.stderr
            assert len(serving(platform, old)) == 2
            file.write_text(good)
            platform.edit_model(model, max_model_len=4096)  # the route does not depend on it
            comment = await asyncio.to_thread(platform.slipway, "diff")
            done = await asyncio.to_thread(platform.slipway, "up")
            await drained(replaced)
        return load, done.stderr, comment.stdout

    load, log, comment = asyncio.run(change())
    assert "Tasks[server].Templates[local/replica.json].engine.max_model_len: 4096" in comment
    new = job_of_each_model(platform)[model]
    assert load.failures == [], log[-3000:]
    assert len(load.answers[model]) >= 5
    running = {job["ID"] for job in jobs(platform)}
    assert new in running - {old}
    assert old not in running
    assert len(serving(platform, new)) == 2
    assert f"model-{model}-route" not in log
    platform.slipway("preview", "--expect-no-changes")
