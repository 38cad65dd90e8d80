"""The memory that a plan needs in addition: what runs as planned needs none."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from cli.machine import checks
from cli.machine.memory import PLATFORM_BYTES, available_bytes, newly_needed_bytes

GIB = 2**30
JOB = "model-m-3f9c1a"
OLD_JOB = "model-m-0a1b2c"


def model(
    name: str = "m", *, least: int = 2, surge: int | None = None, gib: int = 4, nodes: int = 1
) -> Any:
    return SimpleNamespace(
        name=name,
        surge=surge,
        replica=SimpleNamespace(memory_bytes=gib * GIB, nodes=nodes),
        stable=SimpleNamespace(
            job_id=f"model-{name}-3f9c1a",
            scaling=SimpleNamespace(min_replicas=least, max_replicas=4),
        ),
    )


def plan(*models: Any) -> Any:
    return SimpleNamespace(models=models)


def allocation(job: str, *, status: str = "running", mib: int = 2048) -> dict[str, Any]:
    """Its steps each reserve as much: they run one after the other."""
    task = {"Memory": {"MemoryMB": mib}}
    return {
        "JobID": job,
        "ClientStatus": status,
        "AllocatedResources": {"Tasks": {"weights": task, "server": task}},
    }


def test_with_nothing_running_the_platform_and_the_first_replicas_need_memory() -> None:
    assert newly_needed_bytes(plan(model(), model("n", least=1)), None) == {
        "the platform": PLATFORM_BYTES,
        "m": 8 * GIB,
        "n": 4 * GIB,
    }


@pytest.mark.parametrize(
    ("running", "needed"),
    [
        ([allocation(JOB)] * 2, {}),
        ([allocation(JOB)] * 3, {}),
        ([allocation(JOB)], {"m": 4 * GIB}),
        ([allocation(JOB), allocation(JOB, status="complete")], {"m": 4 * GIB}),
        ([], {"m": 8 * GIB}),
        ([allocation(OLD_JOB)] * 2, {"m": 8 * GIB}),
        ([allocation(OLD_JOB)] * 3, {"m": 12 * GIB}),
        ([allocation(OLD_JOB)] * 9, {"m": 16 * GIB}),
        ([allocation("model-m-b-0a1b2c")] * 3, {"m": 8 * GIB}),
    ],
    ids=[
        "all run as planned",
        "the autoscaler made more",
        "the minimum was raised",
        "one has ended",
        "a new model",
        "a changed spec starts beside the old one",
        "as many as the old one has now",
        "and no more than the maximum",
        "another model's replicas",
    ],
)
def test_only_what_does_not_run_as_planned_counts(
    running: list[dict[str, Any]], needed: dict[str, int]
) -> None:
    assert newly_needed_bytes(plan(model()), running) == needed


def test_replicas_exchanged_one_by_one_need_only_the_difference_in_size() -> None:
    running = [allocation(OLD_JOB)] * 2
    assert newly_needed_bytes(plan(model(surge=0)), running) == {"m": 4 * GIB}
    assert newly_needed_bytes(plan(model(surge=0, gib=2)), running) == {}


def free(gib: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "available_bytes", lambda: int(gib * GIB))


def test_too_little_memory_for_the_first_up_says_what_to_lower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free(9.2, monkeypatch)
    assert checks.memory(plan(model())).state == "ok"
    free(9, monkeypatch)
    short = checks.memory(plan(model()))
    assert short.state == "fail"
    assert "9.0 GiB free, 9.1 GiB needed for the platform, m" in short.detail
    assert "replicas.min" in short.fix
    assert "surge" not in short.fix


def test_a_second_model_on_a_running_platform_is_checked_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free(3, monkeypatch)
    running = [allocation(JOB)] * 2
    assert checks.memory(plan(model()), running).state == "ok"
    short = checks.memory(plan(model(), model("n", least=1)), running)
    assert short.state == "fail"
    assert "3.0 GiB free, 4.0 GiB needed for n" in short.detail
    assert "surge: 0" in short.fix


def test_available_memory_is_some_of_this_machines() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_bytes() <= total


@pytest.mark.parametrize(
    ("running", "gib"),
    [
        ([], 2 * 3 * 4),
        ([allocation(JOB)] * 4, (6 - 4) * 4),
        ([allocation(JOB)] * 6, 0),
        ([allocation(OLD_JOB)] * 9, 3 * 3 * 4),
        ([allocation(OLD_JOB)] * 15, 4 * 3 * 4),
    ],
    ids=["none", "a part", "all", "three of another spec", "more of them than the maximum"],
)
def test_a_replica_over_several_nodes_needs_its_memory_on_each(
    running: list[dict[str, Any]], gib: int
) -> None:
    groups = plan(model(nodes=3))
    assert sum(newly_needed_bytes(groups, running).values()) == gib * GIB
    assert newly_needed_bytes(groups, None)["m"] == 2 * 3 * 4 * GIB
