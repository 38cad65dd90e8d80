"""The tests' own platforms: copies of this checkout, with other address ranges."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.live.environments import (
    MODELS,
    SMALL_MODELS,
    Platform,
    copy_tree,
    deployment,
    write_environment,
)
from tests.live.footprint import NOTHING, files_beside, footprint, shared_memory_of
from tests.waiting import until

CHECKOUT_PATH_LENGTH = 120

SCALED_MODEL = "sim-scaled"
LEAST, MOST = 1, 3
STREAMS_PER_PROTOCOL = 3
SCALING = {
    "slipway:monitoring": {"scrape_interval_s": 2},
    # All streams together ask for MOST replicas.
    "slipway:autoscaling": {
        "evaluation_interval_s": 2,
        "cooldown_s": 1,
        "target_inflight_per_replica": 2 * STREAMS_PER_PROTOCOL // MOST,
    },
}
SLOWER_ANSWERS = {"engine_args": {"time_scale": 10}}


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the working tree under a path of 120 characters."""
    base = tmp_path_factory.mktemp("live")
    padding = CHECKOUT_PATH_LENGTH - len(str(base)) - 1
    path = base / ("c" * max(padding, 1))
    copy_tree(path)
    weights = {"weights": "load"}
    write_environment(path, "live", network="127.78.0", models=MODELS, nodes=2, gateway=weights)
    write_environment(path, "live2", network="127.79.0", models=SMALL_MODELS, nodes=1)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def platform(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """The platform with the real model, up; at the end it must leave nothing behind."""
    temporary = tmp_path_factory.mktemp("t")  # whatever a command leaves there is its own
    variables = {**os.environ, "TMPDIR": str(temporary)}
    unstarted = Platform(checkout=checkout, name="live", variables=variables)
    files, elsewhere, shared = files_beside(unstarted), made_elsewhere(), {}
    try:
        yield dataclasses.replace(unstarted, first_up=unstarted.up())
        shared = shared_memory_of(unstarted)
    finally:
        ended = unstarted.slipway("down", "--yes", check=False)
    assert ended.returncode == 0, ended.stderr
    assert footprint(unstarted, shared) == NOTHING
    assert files_beside(unstarted) == files
    assert list(temporary.iterdir()) == []
    # Replicas that were killed or replaced meanwhile created some, and their platform has gone.
    # The groups of another environment are empty for a moment, before and after their task.
    until(lambda: made_elsewhere() <= elsewhere, "an end without leftovers")


def made_elsewhere() -> set[Path]:
    """What Triton creates in /tmp and Nomad in the control groups at every start of a task, however
    often a test killed it."""
    groups = Path("/sys/fs/cgroup")  # version 1, version 2
    return {
        *Path("/tmp").glob("python_env_*"),
        *filter(_is_empty, groups.glob("*/nomad/*-*-*-*-*.*")),  # allocation.task
        *filter(_is_empty, groups.glob("nomad.slice/*.slice/*.scope")),
    }


def _is_empty(group: Path) -> bool:
    """Whether no task is in a control group: another environment has some as well."""
    with suppress(OSError):  # it has gone meanwhile
        return not (group / "cgroup.procs").read_text()
    return False


@pytest.fixture
def second(checkout: Path) -> Iterator[Platform]:
    """A smaller environment of the same checkout, simulated models only; down at the start."""
    environment = Platform(checkout=checkout, name="live2", network="127.79.0")
    try:
        yield environment
    finally:
        environment.down()


@pytest.fixture(scope="session")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """An environment with one simulated model that is scaled soon, in a checkout of its own; up."""
    checkout = tmp_path_factory.mktemp("scaled")
    copy_tree(checkout)
    platform = Platform(checkout=checkout, name="scaled", network="127.81.0")
    write_environment(
        checkout,
        platform.name,
        network=platform.network,
        models={SCALED_MODEL: deployment(LEAST, MOST)},
        nodes=1,
    )
    stack = checkout / f"Pulumi.{platform.name}.yaml"
    document = yaml.safe_load(stack.read_text())
    document["config"] |= SCALING
    stack.write_text(yaml.safe_dump(document))
    platform.edit_model(SCALED_MODEL, **SLOWER_ANSWERS)
    try:
        yield dataclasses.replace(platform, first_up=platform.up())
    finally:
        platform.down()
        shutil.rmtree(checkout)
