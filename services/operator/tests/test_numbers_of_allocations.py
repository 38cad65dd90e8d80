"""What Nomad does with the numbers and the health of a job's allocations, on which groups of them
stand (services/program/group/place.py)."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import Cluster
from gate import NANOSECONDS_PER_S, model_job, placed_of, start_old
from hangs import HANG_S
from program.group.place import index_of
from program.http_json import Api
from program.waiting import wait_until

pytestmark = pytest.mark.binaries

NETWORK = "127.106.0."
JOB = "model-m-0"


def numbers(nomad: Api) -> list[int]:
    """Of the allocations that should run."""
    return sorted(index_of(each["Name"]) for each in placed_of(nomad, "0"))


def wait_for_numbers(nomad: Api, *wanted: int) -> None:
    def others() -> str | None:
        found = numbers(nomad)
        return None if found == list(wanted) else f"{found} instead of {list(wanted)}"

    wait_until("they are placed", others, HANG_S)


def scale(nomad: Api, count: int) -> None:
    nomad.put(f"/v1/job/{JOB}/scale", {"Count": count, "Target": {"Group": "replica"}})


def queued(nomad: Api) -> int:
    """How many allocations have no node; Nomad publishes it as the figure on which the
    autoscaler's query waits (components/autoscaling/policy.py)."""
    summary = nomad.get(f"/v1/job/{JOB}/summary")["Summary"]
    return int(summary["replica"]["Queued"])


def take_work(nomad: Api, node: str, eligibility: str) -> None:
    nomad.put(f"/v1/node/{node}/eligibility", {"Eligibility": eligibility})


def test_a_lower_count_ends_the_highest_numbers_and_a_higher_one_fills_gaps_first(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    """So scaling in while a member of a lower group has no node leaves halves; a higher count, and
    then the lower one, makes the lower group whole."""
    start_old(cluster, nomad, count=1, members=2)
    scale(nomad, 4)
    wait_for_numbers(nomad, 0, 1, 2, 3)
    second = next(each for each in placed_of(nomad, "0") if index_of(each["Name"]) == 1)
    take_work(nomad, second["NodeID"], "ineligible")
    nomad.post(f"/v1/allocation/{second['ID']}/stop")
    wait_for_numbers(nomad, 0, 2, 3)
    wait_until("it is counted", lambda: None if queued(nomad) == 1 else "not yet", HANG_S)
    scale(nomad, 2)
    wait_for_numbers(nomad, 0, 2)
    take_work(nomad, second["NodeID"], "eligible")
    scale(nomad, 4)
    wait_for_numbers(nomad, 0, 1, 2, 3)
    scale(nomad, 2)
    wait_for_numbers(nomad, 0, 1)


def test_a_member_that_registers_no_checked_service_is_healthy_by_its_tasks(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    """By checks it would have no health until its deadline, and so long no other could drain."""
    job = model_job("0", count=1, members=2)
    (group,) = job["Job"]["TaskGroups"]
    group["Migrate"] = {
        "MaxParallel": 1,
        "HealthCheck": "task_states",
        "MinHealthyTime": NANOSECONDS_PER_S,
        "HealthyDeadline": int(HANG_S) * NANOSECONDS_PER_S,
    }
    leads = "test $((NOMAD_ALLOC_INDEX % 2)) -ne 0 || exec sleep infinity"
    front = {
        "Name": "front",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", leads]},
        "Resources": {"CPU": 10, "MemoryMB": 10},
        "Lifecycle": {"Hook": "poststart", "Sidecar": False},
        "Services": group.pop("Services"),
    }
    group["Tasks"].append(front)
    nomad.post("/v1/jobs", job)

    def unknown() -> str | None:
        health = [(each.get("DeploymentStatus") or {}).get("Healthy") for each in members()]
        return None if health == [True, True] else str(health)

    def members() -> list[dict[str, Any]]:
        return placed_of(nomad, "0")

    wait_until("both are healthy", unknown, HANG_S)
    ended = [each["TaskStates"]["front"]["State"] for each in members()]
    assert sorted(ended) == ["dead", "running"]
