"""The jobs of replicas on accelerators, whole, and what holds for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from components.nomad.jobspec import LEFT_DELIMITER, Task, to_json
from components.serving.credentials import credentials_policy
from slipway.planner.engines.vllm.release import VLLM
from tests.components.accelerator_jobs import (
    BARE,
    IMAGE,
    IN_CONTAINERS,
    SHAPES,
    accelerator_job,
    planned,
)
from tests.components.golden import assert_golden
from tests.schemas import validate

RUNTIMES = pytest.mark.parametrize("runtime", [BARE, IN_CONTAINERS], ids=["bare", "container"])


def tasks(vendor: str, count: int, runtime: Mapping[str, str] = BARE) -> dict[str, Task]:
    return {task.name: task for task in accelerator_job(vendor, count, runtime).group.tasks}


def document(task: Task, path: str) -> dict[str, object]:
    (content,) = [file.content for file in task.files if file.path == path]
    parsed: dict[str, object] = json.loads(content)
    return parsed


@RUNTIMES
@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_a_job_on_accelerators_is_rendered_whole(
    vendor: str, count: int, runtime: Mapping[str, str]
) -> None:
    rendered = json.loads(to_json(accelerator_job(vendor, count, runtime)))
    where = "containers" if runtime else "accelerators"
    assert_golden(f"jobs/{where}/{vendor}-{count}.json", rendered)


@RUNTIMES
@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_scheduler_and_replica_are_told_the_same_devices(
    vendor: str, count: int, runtime: Mapping[str, str]
) -> None:
    server = tasks(vendor, count, runtime)["server"]
    assert server.devices is not None
    assert (server.devices.name, server.devices.count) == (f"{vendor}/gpu", count)
    replica = document(server, "local/replica.json")
    validate(replica, "replica")
    assert replica["devices"] == {"vendor": vendor, "count": count}


@RUNTIMES
@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_both_tasks_are_told_where_the_weights_are(
    vendor: str, count: int, runtime: Mapping[str, str]
) -> None:
    found = tasks(vendor, count, runtime)
    assert {found[name].env["SLIPWAY_STORE"] for name in ("server", "weights")} == {"/mnt/models"}
    assert (
        document(found["weights"], "local/weights.json")["directory"]
        == (document(found["server"], "local/replica.json")["weights"])
    )


@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_in_containers_only_the_proxy_runs_on_the_host_itself(vendor: str, count: int) -> None:
    rendered = json.loads(to_json(accelerator_job(vendor, count, IN_CONTAINERS)))
    by_name = {task["Name"]: task for task in rendered["Job"]["TaskGroups"][0]["Tasks"]}
    drivers = {name: task["Driver"] for name, task in by_name.items()}
    assert drivers.pop("tls-proxy") == "raw_exec"
    assert drivers == {"weights": "docker", "server": "docker"}
    for name in drivers:
        config = by_name[name]["Config"]
        assert config["image"] == IMAGE
        assert config["readonly_rootfs"]
        assert config["cap_drop"] == ["all"]
        sources = {volume.partition(":")[0] for volume in config["volumes"]}
        assert all(source.startswith(("${meta.runtime}/", "/mnt/models")) for source in sources)


def test_a_container_can_write_to_weights_only_while_it_fetches_them() -> None:
    found = tasks("nvidia", 1, IN_CONTAINERS)
    server, weights = found["server"].container, found["weights"].container
    assert server is not None
    assert weights is not None
    assert "/mnt/models" in server.read
    assert "/mnt/models" in weights.written
    # The engine's cache has code that it loads: no other model's containers may write there.
    assert server.written == ("${meta.runtime}/vllm/chat",)
    assert found["server"].env["SLIPWAY_ENGINE_CACHE"] == "${meta.runtime}/vllm/chat"


def test_a_containers_replica_says_which_vllm_it_was_planned_with() -> None:
    replica = document(tasks("amd", 1, IN_CONTAINERS)["server"], "local/replica.json")
    assert replica["container"] == {"vllm": VLLM}
    assert "container" not in document(tasks("amd", 1)["server"], "local/replica.json")


@RUNTIMES
def test_only_the_task_that_fetches_the_weights_has_their_credentials(
    runtime: Mapping[str, str],
) -> None:
    found = tasks("nvidia", 1, runtime)
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
