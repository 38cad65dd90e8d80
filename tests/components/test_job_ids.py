"""A job's ID is a digest of what its replicas are, not of the code that says so."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.serving.services import service_of_all_specs
from slipway.inputs import load_inputs
from slipway.plan.draft import ModelDraft
from slipway.plan.platform import ReplicaSpec
from stacks.planning import completed, make_plan
from tests.components.platform_plan import platform_draft, platform_plan
from tests.unit.cli.checkouts import copy_checkout

PRINT_JOB_IDS = """
from pathlib import Path
from slipway.inputs import load_inputs
from stacks.planning import make_plan
print([m.stable.job_id for m in make_plan(load_inputs(Path.cwd(), "dev")).models])
"""
RENDERERS = ("components/nomad/jobspec.py", "components/serving/nomad_job.py", "stacks/planning.py")


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


@pytest.mark.thorough
def test_a_comment_in_a_renderer_rolls_no_replica_and_another_rendering_does(
    checkout: Path,
) -> None:
    plan = make_plan(load_inputs(checkout, "dev"))
    before = f"{[model.stable.job_id for model in plan.models]}\n"
    assert before.startswith("['model-smollm2-")
    for renderer in RENDERERS:
        path = checkout / renderer
        path.write_text("# A comment.\n" + path.read_text())
    assert job_ids(checkout) == before
    jobspec = checkout / "components/nomad/jobspec.py"
    jobspec.write_text(jobspec.read_text().replace('"SIGTERM"', '"SIGINT"'))
    assert job_ids(checkout) != before


def drafted() -> ModelDraft:
    return platform_draft().models[0]


def changed(**changes: Any) -> tuple[str, str]:
    """The job's ID before and after a change of the first model."""
    draft = platform_draft()
    first, *others = draft.models
    models = (dataclasses.replace(first, **changes), *others)
    before, after = completed(draft), completed(dataclasses.replace(draft, models=models))
    return before.models[0].stable.job_id, after.models[0].stable.job_id


def test_changed_scaling_bounds_roll_no_replica() -> None:
    scaling = dataclasses.replace(drafted().scaling, min_replicas=2, max_replicas=7, cooldown_s=1)
    old, new = changed(scaling=scaling)
    assert old == new


@dataclasses.dataclass(frozen=True, kw_only=True)
class WiderSpec(ReplicaSpec):
    """With a field that no renderer reads, as a later version of Slipway may have."""

    spare: int = 0


def test_a_spec_that_renders_to_the_same_job_rolls_no_replica() -> None:
    replica = drafted().replica
    fields = {each.name: getattr(replica, each.name) for each in dataclasses.fields(ReplicaSpec)}
    old, new = changed(replica=WiderSpec(**fields, spare=1))
    assert old == new


@pytest.mark.parametrize("change", [{"pool": "edge"}, {"surge": 0}])
def test_another_pool_and_another_way_of_replacing_replicas_need_another_job(
    change: dict[str, Any],
) -> None:
    old, new = changed(**change)
    assert old != new


def test_what_a_replica_is_given_rolls_it() -> None:
    replica = drafted().replica
    old, new = changed(replica=dataclasses.replace(replica, memory_bytes=2 * replica.memory_bytes))
    assert old != new


def test_the_service_and_the_route_go_with_the_job() -> None:
    alone, in_turn = platform_plan(in_turn=("sim",)).models[::-1]
    assert alone.stable.service == alone.stable.job_id
    assert alone.route["backends"] == [{"service": alone.stable.job_id, "weight": 100}]
    assert in_turn.stable.service == "model-sim-all"
    assert in_turn.route["backends"] == [{"service": "model-sim-all", "weight": 100}]


@given(
    name=st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True),
    other=st.from_regex(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?(-all|-[0-9a-f]{6})?", fullmatch=True),
    digest=st.from_regex(r"[0-9a-f]{6}", fullmatch=True),
)
def test_a_service_of_all_specs_is_neither_another_models_nor_a_jobs_own(
    name: str, other: str, digest: str
) -> None:
    service = service_of_all_specs(name)
    assert service != f"model-{other}-{digest}"
    assert (service == service_of_all_specs(other)) is (name == other)
    assert len(f"{service}-openai") <= 63
