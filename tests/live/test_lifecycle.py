"""`down`, `start`, interrupted runs, other users: what is left, and what comes back."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import models, unprivileged
from tests.live.environments import SMALL_MODELS, Platform, copy_tree, write_environment
from tests.live.footprint import footprint, scratch
from tests.live.interruptions import PHASES, interrupt_up
from tests.live.processes import Process, processes_of
from tests.live.streaming import grpc_stream, openai_stream
from tests.waiting import HANG_S, until
from toolchain.settings import default_cache

pytestmark = [pytest.mark.live, pytest.mark.apart]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A small environment in a checkout of its own, simulated models only; not up."""
    checkout = tmp_path_factory.mktemp("small")
    copy_tree(checkout)
    environment = Platform(checkout=checkout, name="small", network="127.84.0")
    write_environment(
        checkout, environment.name, network=environment.network, models=SMALL_MODELS, nodes=1
    )
    try:
        yield environment
    finally:
        environment.down()
        shutil.rmtree(checkout)


@pytest.fixture(scope="module")
def standing(small: Platform) -> Platform:
    """It is up; for tests that end it and bring it back."""
    small.up()
    return small


def test_stop_ends_every_process_and_start_brings_back_the_same_state(standing: Platform) -> None:
    before = identity(standing)
    standing.slipway("stop")
    left = footprint(standing, {})
    assert (left["processes"], left["listening"], mounts_of(standing)) == ([], [], [])
    assert not standing.status()["running"]
    assert "stopped" in standing.slipway("status").stdout
    standing.slipway("start")
    assert identity(standing) == before
    assert standing.status()["running"]
    assert_answers(standing)


def test_after_a_reboot_start_brings_back_the_same_state(standing: Platform) -> None:
    before = identity(standing)
    reboot(standing)
    standing.slipway("start")
    assert identity(standing) == before
    assert_answers(standing)


def test_after_a_reboot_up_brings_back_the_same_state(standing: Platform) -> None:
    before = identity(standing)
    reboot(standing)
    standing.up()
    assert identity(standing) == before
    standing.slipway("preview", "--expect-no-changes")


def test_jobs_stopped_by_hand_are_drift_and_run_again_after_up(standing: Platform) -> None:
    stopped = [models.job_of_each_model(standing)["sim-a"], "prometheus"]
    for job in stopped:
        httpx.delete(
            f"{standing.nomad_address}/v1/job/{job}",
            headers={"X-Nomad-Token": standing.token("nomad")},
            verify=standing.operator,
            timeout=HANG_S,
        ).raise_for_status()
    seen = json.loads(standing.slipway("preview", "--json").stdout)
    changed = {
        step["urn"].rpartition("::")[2]
        for step in seen["steps"]
        if step["op"] not in ("same", "refresh")
    }
    assert changed == {"model-sim-a", "prometheus"}

    standing.up()
    assert set(stopped) <= {job["ID"] for job in models.jobs(standing)}
    assert_answers(standing)
    standing.slipway("preview", "--expect-no-changes")


@pytest.mark.parametrize(
    ("phase", "number"),
    [("starting clusters", signal.SIGINT), ("waiting for a model", signal.SIGKILL)],
)
def test_up_completes_what_an_interrupted_up_began(
    small: Platform, phase: str, number: signal.Signals
) -> None:
    small.slipway("down", "--yes", check=False)
    interrupt_up(small, PHASES[phase], number)
    assert small.up()["models"] == {"sim-a": {"ready": True}}
    assert_answers(small)
    small.slipway("preview", "--expect-no-changes")


def identity(platform: Platform) -> dict[str, Any]:
    """What must survive: the ids of nodes and jobs, and the routes."""
    return {
        "nodes": sorted((node["Name"], node["ID"]) for node in platform.nomad("nodes")),
        "jobs": sorted((job["ID"], job["Version"]) for job in job_documents(platform)),
        "routes": platform.consul("kv/slipway/routes/?recurse=true&raw=false"),
    }


def job_documents(platform: Platform) -> list[dict[str, Any]]:
    return [platform.nomad(f"job/{job['ID']}") for job in models.jobs(platform)]


def reboot(platform: Platform) -> None:
    """Imitates a reboot: no process, no mount and no scratch folder of the environment is left."""
    # Again and again: a process ends a moment after its signal, and may have started another one.
    until(lambda: not kill_all(platform), "the end of every process")
    for point in mounts_of(platform):
        subprocess.run(["umount", point], check=True)
    shutil.rmtree(scratch(platform))


def kill_all(platform: Platform) -> list[Process]:
    """Kills the processes of the environment, supervisors first; returns those it found."""
    found = processes_of(platform.run, scratch(platform))
    for process in sorted(found, key=lambda p: p.kind != "supervisord"):
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
    return found


def mounts_of(platform: Platform) -> list[str]:
    """Without those of the checkout's other environments."""
    points = footprint(platform, {})["mounts"]
    return [point for point in points if Path(point).is_relative_to(platform.run)]


def assert_answers(platform: Platform) -> None:
    host = f"{platform.network}.32:8080"
    over_http = asyncio.run(openai_stream(f"http://{host}", "sim-a", "hello", max_tokens=4))
    over_grpc = asyncio.run(grpc_stream(host, "sim-a", "hello", max_tokens=4))
    assert (over_http.error, over_grpc.error) == (None, None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_user_without_root_brings_it_up_and_takes_it_down_without_a_trace() -> None:
    with unprivileged.home_of_a_user(default_cache()) as home:
        write_environment(
            home / "checkout", "user", network="127.80.0", models=SMALL_MODELS, nodes=1
        )
        user = Platform(
            checkout=home / "checkout",
            name="user",
            network="127.80.0",
            prefix=unprivileged.command_prefix(),
            variables=unprivileged.variables(home),
        )
        before = unprivileged.files_outside(home)
        try:
            assert user.up()["models"] == {"sim-a": {"ready": True}}
            assert user.slipway("chat", "sim-a", "hello").stdout.strip() != ""
        finally:
            user.down()
        assert unprivileged.processes() == []
        assert unprivileged.files_outside(home) == before
        assert footprint(user, {})["listening"] == []
        assert not user.run.exists()
