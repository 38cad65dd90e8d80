"""The jobs of replicas on accelerators, whole, and what holds for all of them."""

from __future__ import annotations

import json

import pytest

from components.nomad.jobspec import LEFT_DELIMITER, Task, to_json
from components.serving.credentials import credentials_policy
from tests.components.accelerator_jobs import SHAPES, accelerator_job, planned
from tests.components.golden import assert_golden
from tests.schemas import validate


def tasks(vendor: str, count: int) -> dict[str, Task]:
    return {task.name: task for task in accelerator_job(vendor, count).group.tasks}


def document(task: Task, path: str) -> dict[str, object]:
    (content,) = [file.content for file in task.files if file.path == path]
    parsed: dict[str, object] = json.loads(content)
    return parsed


@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_a_job_on_accelerators_is_rendered_whole(vendor: str, count: int) -> None:
    rendered = json.loads(to_json(accelerator_job(vendor, count)))
    assert_golden(f"jobs/accelerators/{vendor}-{count}.json", rendered)


@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_scheduler_and_replica_are_told_the_same_devices(vendor: str, count: int) -> None:
    server = tasks(vendor, count)["server"]
    assert server.devices is not None
    assert (server.devices.name, server.devices.count) == (f"{vendor}/gpu", count)
    replica = document(server, "local/replica.json")
    validate(replica, "replica")
    assert replica["devices"] == {"vendor": vendor, "count": count}


@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_both_tasks_are_told_where_the_weights_are(vendor: str, count: int) -> None:
    found = tasks(vendor, count)
    assert {found[name].env["SLIPWAY_STORE"] for name in ("server", "weights")} == {"/mnt/models"}
    assert (
        document(found["weights"], "local/weights.json")["directory"]
        == (document(found["server"], "local/replica.json")["weights"])
    )


def test_only_the_task_that_fetches_the_weights_has_their_credentials() -> None:
    found = tasks("nvidia", 1)
    with_credentials = [
        name
        for name, task in found.items()
        if any(
            "slipway/credentials" in file.content
            for file in task.files
            if LEFT_DELIMITER in file.content
        )
    ]
    assert with_credentials == ["weights"]
    assert [name for name, task in found.items() if "SLIPWAY_CREDENTIALS" in task.env] == [
        "weights"
    ]


def test_the_policy_lets_one_task_of_the_job_read_one_variable() -> None:
    _, model = planned("nvidia", 1)
    policy = credentials_policy(model, model.stable.job_id)
    assert policy is not None
    assert (policy.job_id, policy.group, policy.task) == (
        model.stable.job_id,
        "replica",
        "weights",
    )
    assert 'path "slipway/credentials/models"' in policy.rules
    assert policy.rules.count("capabilities") == 1
    assert '["read"]' in policy.rules
