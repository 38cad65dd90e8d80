"""Where weights come from: what reaches the step that prepares them, and what a pool can keep."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.errors import ConfigError, Problem
from slipway.plan.platform import ModelPlan
from stacks.planning import make_plan
from tests.schemas import validate
from tests.unit.planner.fleets import OWNED, fleet, model_file

BUCKET = {"s3": "s3://models/chat/", "revision": "1"}
HUB = {"hf": "Qwen/Qwen2.5-7B-Instruct", "revision": "0" * 40}
FILES = {"config.json": {"bytes": 2, "sha256": "a" * 64}}


def planned(source: dict[str, Any], **pool: Any) -> ModelPlan:
    (model,) = make_plan(fleet(model_file(source=source), pools={"own": OWNED | pool})).models
    return model


def refused(source: dict[str, Any], **pool: Any) -> Problem:
    with pytest.raises(ConfigError) as caught:
        planned(source, **pool)
    (problem,) = caught.value.problems
    return problem


def document(model: ModelPlan) -> dict[str, Any]:
    assert model.replica.weights is not None
    content = dict(model.replica.weights.document)
    validate(content, "weights")
    return content


@pytest.mark.parametrize("source", [BUCKET, HUB], ids=["bucket", "hub"])
def test_hosts_fetch_what_is_not_delivered_to_them(source: dict[str, Any]) -> None:
    weights = planned(source).replica.weights
    assert weights is not None
    assert (weights.python, weights.fetched_by_hosts) == ("weights", True)
    assert "weights" in planned(source).replica.environments


def test_a_folder_and_a_package_are_prepared_by_the_engines_environment() -> None:
    weights = planned({"path": "/srv/models/chat", "revision": "1"}).replica.weights
    assert weights is not None
    assert (weights.python, weights.fetched_by_hosts) == ("vllm", False)
    assert weights.document["schema_version"] == 1


@pytest.mark.parametrize("source", [BUCKET, HUB], ids=["bucket", "hub"])
def test_everything_that_a_model_file_says_of_its_source_reaches_the_step(
    source: dict[str, Any],
) -> None:
    said = {"endpoint": "https://mirror.example", "credentials": "models", "files": FILES}
    model = planned(source | said)
    content = document(model)
    assert content["source"] == source
    assert content["access"] == {
        "endpoint": "https://mirror.example",
        "credentials": "slipway/credentials/models",
    }
    assert content["files"] == FILES
    assert model.replica.weights is not None
    assert model.replica.weights.credentials == "slipway/credentials/models"


def test_how_a_source_is_reached_changes_neither_its_folder_nor_what_is_in_it() -> None:
    said = {"endpoint": "https://mirror.example", "credentials": "models", "files": FILES}
    assert document(planned(BUCKET))["directory"] == document(planned(BUCKET | said))["directory"]
    other = document(planned(BUCKET | {"revision": "2"}))["directory"]
    assert document(planned(BUCKET))["directory"] != other


def test_a_pools_store_says_where_weights_go_and_how_fast_they_may_come() -> None:
    store = {"size": "3TiB", "path": "/mnt/models", "download_gbps": 8, "files_at_once": 16}
    model = planned(BUCKET, model_store=store)
    assert document(model)["limits"] == {"files_at_once": 16, "bytes_per_s": 1_000_000_000}
    assert model.replica.store == "/mnt/models"


def test_what_is_delivered_does_not_go_to_the_store() -> None:
    folder = {"path": "/srv/models/chat", "revision": "1"}
    store = {"size": "3TiB", "path": "/mnt/models"}
    assert planned(folder, model_store=store).replica.store == ""


def test_what_is_delivered_does_not_count_towards_the_store() -> None:
    folder = {"path": "/srv/models/chat", "revision": "1"}
    planned(folder, model_store={"size": "1GiB"})


def test_a_store_that_is_smaller_than_its_models_is_refused() -> None:
    problem = refused(BUCKET, model_store={"size": "10GiB"})
    assert (problem.key, problem.value) == ("slipway:pools.own.model_store.size", "10.0 GiB")
    assert "less than the weights of the pool's models, 15.0 GiB in all: chat 15.0 GiB" in (
        problem.message
    )
    planned(BUCKET, model_store={"size": "15.1GiB"})


@pytest.mark.parametrize("source", [BUCKET, HUB], ids=["bucket", "hub"])
@pytest.mark.parametrize(
    ("said", "key", "message"),
    [
        (
            {"endpoint": "http://mirror.example", "credentials": "models"},
            "source.endpoint",
            "would get the credentials 'models' in plain text",
        ),
        ({"endpoint": "mirror.example"}, "source.endpoint", "must be an https:// (or http://)"),
        ({"endpoint": "https://me:word@mirror.example"}, "source.endpoint", "without a password"),
        (
            {"endpoint": "http://127.evil.example", "credentials": "models"},
            "source.endpoint",
            "would get the credentials",
        ),
        ({"credentials": "../root"}, "source.credentials", "must be at most 40"),
        ({"files": {}}, "source.files", "must not be empty"),
        ({"files": {"a": {"bytes": 1}}}, "source.files.a.sha256", "required"),
        ({"files": {"a": {"bytes": 1, "sha256": "x"}}}, "source.files.a.sha256", "64 hex"),
    ],
)
def test_a_source_that_cannot_work_is_refused_with_its_key(
    source: dict[str, Any], said: dict[str, Any], key: str, message: str
) -> None:
    problem = refused(source | said)
    assert problem.key == key
    assert message in problem.message


def test_amds_accelerators_run_engines_in_containers_only() -> None:
    host = {"name": "rack1", "address": "10.40.0.11"}
    counted = OWNED | {"accelerator": "MI300X", "memory": "512GiB", "cpu": 64}
    listed = {key: value for key, value in counted.items() if key != "nodes"} | {"hosts": [host]}
    image = {"runtime": "container", "image": f"registry.example/triton@sha256:{'0' * 64}"}

    def plan(pool: dict[str, Any]) -> None:
        make_plan(fleet(model_file(), pools={"own": pool}, replicas={"min": 1, "max": 1}))

    plan(counted)
    plan(listed | {"accelerator": "H100-80"})
    plan(listed | image)
    for refused in (listed, listed | {"runtime": "bare"}, counted | {"runtime": "bare"}):
        with pytest.raises(ConfigError) as caught:
            plan(refused)
        (problem,) = caught.value.problems
        assert (problem.key, problem.value) == ("slipway:pools.own.runtime", "bare")
        assert "engines for amd come in images" in problem.message
        assert "runtime: container" in problem.fix


def test_a_mirror_on_this_machine_may_be_plain() -> None:
    said = {"endpoint": "http://127.0.0.1:9000", "credentials": "models"}
    assert document(planned(BUCKET | said))["access"]["endpoint"] == "http://127.0.0.1:9000"
