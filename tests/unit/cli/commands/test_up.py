"""The order of `up`, its report, and `down`, with stand-ins for the parts they call."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.applied import from_document
from cli.environment import Environment
from cli.errors import CliError
from cli.hosts.troubles import Trouble
from cli.lifecycle.local import down, up
from cli.machine import preparation
from cli.progress import Phases
from cli.protocols.answer import Answer
from cli.protocols.probe import Probe
from cli.pulumi.locks import exclusive
from cli.pulumi.process import Pulumi
from slipway.inputs import load_inputs
from slipway.plan.platform import SecurityPlan
from stacks.planning import make_plan
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.checkouts import ROOT
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import put_plan
from tests.unit.cli.pulumi.test_state import put_checkpoint

INPUTS = SimpleNamespace(
    without_key=[], not_valid=[], certificate=None
)  # of a plan that can be applied

PARIS = Answer(text=" Paris. ", tokens=3, pieces=3, ttft_s=0.0756, total_s=0.3)
READY = Probe(model="smollm2", openai=PARIS, grpc=PARIS)


@pytest.fixture
def brought_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Probe]], None]:
    """Makes `up` meet a good machine and a finished update; the probes are given."""

    def prepare(probes: dict[str, Probe], *absent: Trouble) -> None:
        applied = from_document(plan_document())
        monkeypatch.setattr(up.checks, "machine", lambda _: [])
        monkeypatch.setattr(up.checks, "free_ports", lambda *_: [])
        monkeypatch.setattr(
            up.checks, "memory", lambda *_: up.checks.Check(name="memory", state="ok", detail="")
        )
        monkeypatch.setattr(up, "load_inputs", lambda *_: INPUTS)
        monkeypatch.setattr(up, "make_plan", lambda _: None)
        monkeypatch.setattr(up, "_bring_up", lambda *_: applied)
        monkeypatch.setattr(up, "wait_for_models", lambda *_, **__: None)
        monkeypatch.setattr(up, "lasting_troubles", lambda *_: list(absent))
        monkeypatch.setattr(up, "ask", lambda _applied, model, **_: probes[model.name])

    return prepare


def test_up_for_scripts_ends_with_one_line_of_json_and_nothing_else(
    runner: CliRunner, checkout: Path, brought_up: Callable[[dict[str, Probe]], None]
) -> None:
    simulated = Probe(model="sim-a", openai=PARIS, grpc=PARIS)
    brought_up({"smollm2": READY, "sim-a": simulated})
    result = runner.invoke(app, ["up", "--json"])
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    report = json.loads(result.stdout)
    assert set(report) == {
        "gateway",
        "models",
        "answer",
        "ttft_ms",
        "seconds",
        "phases",
        "troubles",
    }
    assert report["gateway"] == {"http": f"http://{NETWORK}.32:8080", "grpc": f"{NETWORK}.32:8080"}
    assert report["models"] == {"sim-a": {"ready": True}, "smollm2": {"ready": True}}
    assert report["answer"] == "Paris."
    assert report["ttft_ms"] == 76
    assert set(report["phases"]) >= {"checks", "plan", "probe"}


def test_up_for_people_keeps_stdout_empty_and_shows_where_to_ask(
    runner: CliRunner, checkout: Path, brought_up: Callable[[dict[str, Probe]], None]
) -> None:
    brought_up({"smollm2": READY, "sim-a": READY})
    result = runner.invoke(app, ["up"])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"http://{NETWORK}.32:8080" in result.stderr
    assert "Paris." in result.stderr


def test_up_fails_when_a_model_does_not_answer_and_still_reports(
    runner: CliRunner, checkout: Path, brought_up: Callable[[dict[str, Probe]], None]
) -> None:
    silent = Probe(model="sim-a", openai=None, grpc=None, error="OpenAI: HTTP 503: no upstream")
    brought_up({"smollm2": READY, "sim-a": silent})
    result = runner.invoke(app, ["up", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["models"]["sim-a"] == {"ready": False}
    assert "sim-a: no answer: OpenAI: HTTP 503" in result.stderr


@pytest.mark.parametrize(("absent", "code"), [(True, 1), (False, 0)])
def test_up_names_the_hosts_it_was_done_without_and_fails_unless_an_operator_drained_them(
    runner: CliRunner,
    checkout: Path,
    brought_up: Callable[..., None],
    absent: bool,
    code: int,
) -> None:
    trouble = Trouble(host="cpu-1", what="is away", fix="slipway x cpu-1", absent=absent)
    brought_up({"smollm2": READY, "sim-a": READY}, trouble)
    result = runner.invoke(app, ["up", "--json"])
    assert result.exit_code == code
    (told,) = json.loads(result.stdout)["troubles"]
    assert told == {"host": "cpu-1", "what": "is away", "fix": "slipway x cpu-1"}
    assert result.stderr.rstrip().endswith("cpu-1 is away\n    fix: slipway x cpu-1")


@pytest.mark.parametrize("answers", [True, False])
def test_up_empties_the_cache_of_what_builds_left_once_every_model_answers(
    runner: CliRunner,
    environment: Environment,
    brought_up: Callable[[dict[str, Probe]], None],
    monkeypatch: pytest.MonkeyPatch,
    answers: bool,
) -> None:
    monkeypatch.delenv("SLIPWAY_KEEP_BUILDS", raising=False)  # of who runs the tests
    (environment.cache / "go/mod").mkdir(parents=True)
    silent = Probe(model="sim-a", openai=None, grpc=None, error="HTTP 503")
    brought_up({"smollm2": READY, "sim-a": READY if answers else silent})
    result = runner.invoke(app, ["up", "--json"])
    assert ("cache" in json.loads(result.stdout)["phases"]) is answers
    assert (environment.cache / "go/mod").exists() is not answers


def test_up_does_not_run_beside_another_command(
    runner: CliRunner,
    environment: Environment,
    brought_up: Callable[[dict[str, Probe]], None],
) -> None:
    brought_up({"smollm2": READY, "sim-a": READY})
    with exclusive(environment):
        result = runner.invoke(app, ["up"])
    assert result.exit_code == 1
    assert "another slipway command" in result.stderr


def test_a_plans_tools_environments_and_bundles_are_what_is_prepared(
    environment: Environment,
) -> None:
    replica = SimpleNamespace(
        environments={"triton": "triton-1", "vllm": "vllm-2"},
        bundle="triton_vllm-3",
        weights=None,
    )
    plan: Any = SimpleNamespace(
        tools={"nomad": "1.11.3", "envoy": "1.40.0"},
        node_agent=SimpleNamespace(environment="node-4", bundle="host-5"),
        operator=SimpleNamespace(bundle="operator-8"),
        gateway=SimpleNamespace(xds_environment="xds-6", xds_bundle="xds-7"),
        models=(SimpleNamespace(replica=replica),),
        pools=(
            SimpleNamespace(device_plugin=None, fabric_check=SimpleNamespace(bundle="fabric-11")),
            SimpleNamespace(
                device_plugin=SimpleNamespace(environment="devices-9", bundle="devices-10"),
                fabric_check=None,
            ),
        ),
        aws=None,
    )
    jobs = [job.name for job in preparation._jobs(environment, plan)]
    assert jobs == ["nomad", "envoy", "devices", "node", "triton", "vllm", "xds"]
    assert preparation._bundles(plan) == [
        ("devices", "devices-10"),
        ("fabric", "fabric-11"),
        ("host", "host-5"),
        ("operator", "operator-8"),
        ("triton_vllm", "triton_vllm-3"),
        ("xds", "xds-7"),
    ]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, environment: Environment) -> list[str]:
    """What `up` does between its checks and its probes, by name; nothing of it is done."""
    done: list[str] = []

    def note(name: str, result: Any = None) -> Callable[..., Any]:
        return lambda *_, **__: done.append(name) or result

    monkeypatch.setattr(preparation, "_jobs", lambda *_: [])
    monkeypatch.setattr(preparation, "_bundles", lambda *_: [])
    for name, result in {"prepare": None, "copy_bundles": [], "prepare_weights": None}.items():
        monkeypatch.setattr(preparation, name, note(name, result))
    for name, result in {
        "_must_be_unchanged": None,
        "prepare_plugins": "official",
        "_restart": None,
        "record": None,
    }.items():
        monkeypatch.setattr(up, name, note(name, result))
    monkeypatch.setattr(up, "prepare_stack", note("prepare_stack"))
    monkeypatch.setattr(Pulumi, "up", note("pulumi"))
    return done


def bring_up(environment: Environment) -> Phases:
    phases, nothing = Phases(), SimpleNamespace(models={})
    security = SecurityPlan(authorities=(1,), gossip_key=1)
    plan: Any = SimpleNamespace(models=(), pools=(), security=security)
    up._bring_up(environment, nothing, plan, phases)  # type: ignore[arg-type]
    return phases


def test_weights_are_a_phase_of_their_own_before_anything_of_the_environment_is_touched(
    environment: Environment, order: list[str]
) -> None:
    phases = bring_up(environment)
    assert list(phases.seconds) == ["tools", "bundles", "weights", "state", "agents", "pulumi"]
    assert order[:4] == ["prepare", "copy_bundles", "prepare_weights", "_must_be_unchanged"]
    assert order[-1] == "pulumi"


def test_weights_that_cannot_be_had_leave_the_environment_as_it_was(
    environment: Environment, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CliError("another checksum", fix="write the right one", exit_code=2)

    monkeypatch.setattr(preparation, "prepare_weights", fail)
    with pytest.raises(CliError, match="another checksum"):
        bring_up(environment)
    assert order == ["prepare", "copy_bundles"]
    assert not environment.home.exists()


def test_files_that_change_while_tools_are_built_leave_the_environment_as_it_was(
    environment: Environment, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CliError("the files were changed", fix="again")

    monkeypatch.setattr(up, "_must_be_unchanged", fail)
    with pytest.raises(CliError, match="were changed"):
        bring_up(environment)
    assert order == ["prepare", "copy_bundles", "prepare_weights"]
    assert not environment.home.exists()


def test_files_are_changed_when_they_make_another_plan(tmp_path: Path) -> None:
    environment = Environment(name="dev", checkout=ROOT, cache=tmp_path)
    plan = make_plan(load_inputs(ROOT, "dev"))
    up._must_be_unchanged(environment, plan)
    fewer = dataclasses.replace(plan, models=plan.models[1:])
    with pytest.raises(CliError, match="the files of dev were changed while this command ran"):
        up._must_be_unchanged(environment, fewer)


@pytest.fixture
def stopped_agents(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes the call of services/host instead of making it."""
    calls: list[str] = []
    monkeypatch.setattr(down.agents, "stop", lambda *_: calls.append("stop"))
    return calls


def test_down_needs_no_cluster_and_leaves_no_state(
    runner: CliRunner, environment: Environment, stopped_agents: list[str]
) -> None:
    environment.make_folders()
    put_plan(environment.checkout, plan_document())
    checkpoint = put_checkpoint(environment, {"resources": []})
    result = runner.invoke(app, ["down", "--yes"])
    assert result.exit_code == 0, result.stderr
    assert stopped_agents == ["stop"]
    assert not checkpoint.exists()
    assert not environment.run.exists()
    assert not environment.scratch.exists()
    assert "Nomad does not answer" in result.stderr


def test_down_after_down_is_no_failure(
    runner: CliRunner, environment: Environment, stopped_agents: list[str]
) -> None:
    assert runner.invoke(app, ["down", "--yes"]).exit_code == 0
    assert runner.invoke(app, ["down", "--yes"]).exit_code == 0


def test_down_stops_jobs_through_nomad_with_the_environments_token(
    runner: CliRunner, environment: Environment, stopped_agents: list[str], serve: Serve
) -> None:
    nomad = serve(
        {
            "GET /v1/status/leader": (200, b'"127.96.0.2:4647"'),
            "GET /v1/jobs": (
                200,
                [
                    {"ID": "envoy", "Stop": False},
                    {"ID": "model-a-3f9c1a", "Stop": False},
                    {"ID": "model-a-000000", "Stop": True},
                ],
            ),
            "DELETE /v1/job/envoy": (200, {}),
            "DELETE /v1/job/model-a-3f9c1a": (200, {}),
            "GET /v1/allocations": (200, [{"ClientStatus": "complete"}]),
        },
        address=f"{NETWORK}.2",
        port=4646,
    )
    put_plan(environment.checkout, plan_document())
    (environment.run / "tokens").mkdir()
    (environment.run / "tokens" / "nomad").write_text("the-token")
    result = runner.invoke(app, ["down", "--yes"])
    assert result.exit_code == 0, result.stderr
    deleted = [request for request in nomad.asked if request.startswith("DELETE")]
    assert [request.partition("?")[0] for request in deleted] == [
        "DELETE /v1/job/envoy",
        "DELETE /v1/job/model-a-3f9c1a",
    ]
    assert all("purge=true" in request for request in deleted)
    assert nomad.headers["X-Nomad-Token"] == "the-token"
    assert "the-token" not in result.output
    assert stopped_agents == ["stop"]


def test_down_goes_on_when_nomad_refuses(
    runner: CliRunner, environment: Environment, stopped_agents: list[str], serve: Serve
) -> None:
    serve(
        {
            "GET /v1/status/leader": (200, b'"127.96.0.2:4647"'),
            "GET /v1/jobs": (403, b"Permission denied"),
        },
        address=f"{NETWORK}.2",
        port=4646,
    )
    put_plan(environment.checkout, plan_document())
    result = runner.invoke(app, ["down", "--yes"])
    assert result.exit_code == 0
    assert "403" in result.stderr
    assert not environment.run.exists()


def test_down_keeps_the_state_when_processes_could_not_be_ended(
    runner: CliRunner, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CliError("the agents did not stop", fix="try again")

    monkeypatch.setattr(down.agents, "stop", fail)
    put_plan(environment.checkout, plan_document())
    checkpoint = put_checkpoint(environment, {})
    result = runner.invoke(app, ["down", "--yes"])
    assert result.exit_code == 1
    assert checkpoint.exists()
    assert environment.run.exists()
