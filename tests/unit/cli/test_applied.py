"""The plan that an environment was last brought up with."""

from __future__ import annotations

import json
from pathlib import Path

from cli.applied import current, from_document, recorded
from cli.environment import Environment
from tests.unit.cli.documents import plan_document


def test_nothing_recorded_is_no_plan(environment: Environment) -> None:
    assert recorded(environment) is None


def test_a_long_command_sees_the_plan_of_an_up_meanwhile(environment: Environment) -> None:
    before = from_document(plan_document())
    assert current(environment, before) is before
    after = plan_document()
    after["models"] = after["models"][:1]
    environment.run.mkdir(parents=True, exist_ok=True)
    (environment.run / "plan.json").write_text(json.dumps(after))
    assert [model.name for model in current(environment, before).models] == ["sim-a"]


def test_the_shown_answer_is_a_real_engines_before_a_simulated_ones() -> None:
    document = plan_document()
    applied = from_document(document)
    assert applied.shown_model is not None
    assert applied.shown_model.name == "smollm2"
    document["models"] = document["models"][:1]
    shown = from_document(document).shown_model
    assert shown is not None
    assert shown.name == "sim-a"
    document["models"] = []
    assert from_document(document).shown_model is None


def test_the_envoys_of_the_gateway_are_counted() -> None:
    document = plan_document()
    assert from_document(document).envoys == 1
    document["gateway"]["envoys"] *= 2
    assert from_document(document).envoys == 2


def test_a_plan_of_version_1_is_read() -> None:
    """An `up` that upgrades a running environment finds its agents by it."""
    document = json.loads(Path(__file__).with_name("plan_version_1.json").read_text())
    assert document["schema_version"] == 1
    applied = from_document(document)
    assert applied.gateway_http == "http://127.77.0.32:8080"
    assert applied.gateway_grpc == "127.77.0.32:8080"
    assert applied.envoy_metrics == ("http://127.77.0.32:9901",)
    assert applied.envoys == 1
    assert applied.xds == ("http://127.77.0.32:18001",)
    assert applied.prometheus == "http://127.77.0.32:9090"
    assert applied.nomad == "http://127.77.0.1:4646"
    assert applied.servers == (applied.nomad,)
    assert applied.consul == "http://127.77.0.1:8500"
    assert [(node.name, node.pool, node.address) for node in applied.nodes] == [
        ("cpu-0", "cpu", "127.77.0.16"),
        ("cpu-1", "cpu", "127.77.0.17"),
        ("edge-0", "edge", "127.77.0.32"),
    ]
    assert [model.name for model in applied.models] == ["smollm2"]


def test_a_plan_of_version_2_is_read_in_which_the_metrics_port_is_called_admin() -> None:
    document = plan_document(envoy_metrics="127.77.0.32:9902")
    (envoy,) = document["gateway"]["envoys"]
    envoy["admin"] = envoy.pop("metrics")
    applied = from_document(document | {"schema_version": 2})
    assert applied.envoy_metrics == ("http://127.77.0.32:9902",)


def test_a_plan_of_version_3_is_read_whose_envoys_do_not_name_their_nodes() -> None:
    document = plan_document()
    (envoy,) = document["gateway"]["envoys"]
    assert "node" not in envoy
    assert from_document(document | {"schema_version": 3}) == from_document(document)
