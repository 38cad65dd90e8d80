"""Agents, readiness: thin adapters with a decision in each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.cli.applied import from_document, recorded
from slipway.cli.environment import Environment
from slipway.cli.errors import CliError
from slipway.cli.platform import agents, readiness
from slipway.cli.platform.nomad import Nomad
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document

PROGRAM = "import os, sys; print(sys.argv[1], os.environ['SLIPWAY_RUN']); sys.exit({code})"


def put_node_program(folder: Path, code: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agents.py").write_text(PROGRAM.format(code=code))


def test_agents_are_started_by_the_program_that_was_applied(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    applied = from_document(plan_document())
    put_node_program(environment.checkout / "services" / "node", code=1)
    put_node_program(environment.cache / "bundles" / applied.node_bundle, code=0)
    agents.start(environment, applied)
    assert f"start {environment.run}" in capsys.readouterr().err


def test_an_up_that_was_interrupted_before_its_first_agent_has_nothing_to_start(
    environment: Environment,
) -> None:
    folder = environment.run / "supervisor"
    folder.mkdir(parents=True)
    assert not agents.has_agents(environment)
    (folder / "endpoint.json").write_text("{}")
    assert agents.has_agents(environment)


def test_agents_are_stopped_without_a_cache_and_without_a_record(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    put_node_program(environment.checkout / "services" / "node", code=0)
    agents.stop(environment, None)
    agents.stop(environment, from_document(plan_document()))
    assert capsys.readouterr().err.count("stop ") == 2


def test_agents_that_do_not_start_are_a_failure_of_the_machine(environment: Environment) -> None:
    put_node_program(environment.checkout / "services" / "node", code=1)
    with pytest.raises(CliError, match="did not start") as failed:
        agents.start(environment, None)
    assert failed.value.exit_code == 1


def test_nothing_recorded_is_no_plan(environment: Environment) -> None:
    assert recorded(environment) is None


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


def test_models_are_waited_for_until_the_deadline_and_the_last_seen_is_told(serve: Serve) -> None:
    applied = from_document(plan_document())
    with pytest.raises(CliError, match=r"the control plane at http://127\.96\.\d+\.32"):
        readiness.wait_for_models(applied, timeout_s=0.1)
    states: dict[str, dict[str, bool]] = {
        "smollm2": {"ready": True},
        "sim-a": {"ready": False, "acknowledged": True},
    }
    status: dict[str, Any] = {"models": states, "envoys": []}
    serve({"GET /status": (200, status)}, address=f"{NETWORK}.32", port=18001)
    with pytest.raises(CliError, match="slipway logs envoy"):
        readiness.wait_for_models(applied, timeout_s=0.1)
    status["envoys"].append({"node": "edge-0"})
    with pytest.raises(CliError, match=r"sim-a \(its replicas\)"):
        readiness.wait_for_models(applied, timeout_s=0.1)
    states["sim-a"]["ready"] = True
    readiness.wait_for_models(applied, timeout_s=0.1)


def test_a_cluster_without_a_leader_is_waited_for_until_the_deadline(serve: Serve) -> None:
    leader: list[object] = [200, b'""']
    server = serve({"GET /v1/status/leader": leader})
    with Nomad(server.address, None) as nomad:
        with pytest.raises(CliError, match="no leader"):
            readiness.wait_for_leader(nomad, timeout_s=0.3)
        assert len(server.asked) > 1
        leader[1] = b'"127.96.0.2:4647"'
        readiness.wait_for_leader(nomad, timeout_s=5)


def test_this_interpreter_serves_where_the_cache_has_none(environment: Environment) -> None:
    assert agents._python(environment, None) == Path(sys.executable)
