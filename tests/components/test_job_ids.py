"""A job's ID is a digest of what its replicas are, not of the code that says so."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway.inputs import load_inputs
from slipway.plan.platform import ModelPlan, ReplicaSpec
from slipway.planner.platform import make_plan
from stacks.job_ids import with_job_ids
from tests.components.platform_plan import platform_plan
from tests.unit.cli.checkouts import copy_checkout

PRINT_JOB_IDS = """
from pathlib import Path
from slipway.inputs import load_inputs
from slipway.planner.platform import make_plan
from stacks.job_ids import with_job_ids
print([m.stable.job_id for m in with_job_ids(make_plan(load_inputs(Path.cwd(), "dev"))).models])
"""
RENDERERS = ("components/nomad/jobspec.py", "components/serving/nomad_job.py", "stacks/job_ids.py")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copied") / "checkout"
    copy_checkout(folder)
    return folder


def job_ids(checkout: Path) -> str:
    path = os.pathsep.join([str(checkout / "src"), str(checkout)])
    return subprocess.run(
        [sys.executable, "-c", PRINT_JOB_IDS],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_a_comment_in_a_renderer_rolls_no_replica_and_another_rendering_does(
    checkout: Path,
) -> None:
    plan = with_job_ids(make_plan(load_inputs(checkout, "dev")))
    before = f"{[model.stable.job_id for model in plan.models]}\n"
    assert before.startswith("['model-smollm2-")
    for renderer in RENDERERS:
        path = checkout / renderer
        path.write_text("# A comment.\n" + path.read_text())
    assert job_ids(checkout) == before
    jobspec = checkout / "components/nomad/jobspec.py"
    jobspec.write_text(jobspec.read_text().replace('"SIGTERM"', '"SIGINT"'))
    assert job_ids(checkout) != before


def changed(model: ModelPlan, change: Callable[[ModelPlan], ModelPlan]) -> tuple[str, str]:
    plan = platform_plan()
    models = tuple(change(each) if each.name == model.name else each for each in plan.models)
    before, after = with_job_ids(plan), with_job_ids(dataclasses.replace(plan, models=models))
    (old,) = [each for each in before.models if each.name == model.name]
    (new,) = [each for each in after.models if each.name == model.name]
    return old.stable.job_id, new.stable.job_id


def test_changed_scaling_bounds_roll_no_replica() -> None:
    model = platform_plan().models[0]
    scaling = dataclasses.replace(
        model.stable.scaling, min_replicas=2, max_replicas=7, cooldown_s=1
    )
    old, new = changed(
        model,
        lambda each: dataclasses.replace(
            each, releases=(dataclasses.replace(model.stable, scaling=scaling),)
        ),
    )
    assert old == new


@dataclasses.dataclass(frozen=True, kw_only=True)
class WiderSpec(ReplicaSpec):
    """With a field that no renderer reads, as a later version of Slipway may have."""

    spare: int = 0


def test_a_spec_that_renders_to_the_same_job_rolls_no_replica() -> None:
    model = platform_plan().models[0]
    fields = {
        each.name: getattr(model.replica, each.name) for each in dataclasses.fields(ReplicaSpec)
    }
    wider = WiderSpec(**fields, spare=1)
    spec = dataclasses.replace(model.stable, spec_digest="012def")
    old, new = changed(
        model, lambda each: dataclasses.replace(each, replica=wider, releases=(spec,))
    )
    assert old == new


@pytest.mark.parametrize("change", [{"pool": "edge"}, {"surge": 0}])
def test_another_pool_and_another_way_of_replacing_replicas_need_another_job(
    change: dict[str, Any],
) -> None:
    old, new = changed(platform_plan().models[0], lambda each: dataclasses.replace(each, **change))
    assert old != new


def test_what_a_replica_is_given_rolls_it() -> None:
    model = platform_plan().models[0]
    replica = dataclasses.replace(model.replica, memory_bytes=2 * model.replica.memory_bytes)
    old, new = changed(model, lambda each: dataclasses.replace(each, replica=replica))
    assert old != new


def test_the_service_and_the_route_go_with_the_job() -> None:
    alone, in_turn = with_job_ids(platform_plan(in_turn=("sim",))).models[::-1]
    assert alone.stable.service == alone.stable.job_id
    assert alone.route["backends"] == [{"service": alone.stable.job_id, "weight": 100}]
    assert in_turn.stable.service == "model-sim-all"
    assert in_turn.route["backends"] == [{"service": "model-sim-all", "weight": 100}]
