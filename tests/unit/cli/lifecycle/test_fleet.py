"""Fleets and Pulumi, with a stand-in that records how it was called."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.environment import DEV_PASSPHRASE, Environment, find
from cli.errors import CliError
from cli.hosts.troubles import Trouble
from cli.lifecycle.fleet import backend, prepared, up
from cli.lifecycle.fleet import hosts as hosts_module
from cli.lifecycle.fleet.hosts import HostOperations
from cli.lifecycle.fleet.lifecycle import FleetLifecycle
from cli.planning import plan_of
from slipway.plan.platform import SecurityPlan

INPUTS = SimpleNamespace(
    without_key=[], not_valid=[], certificate=None
)  # of a plan that can be applied

OWN = ("PULUMI_BACKEND_URL", "PULUMI_HOME", "PULUMI_CONFIG_PASSPHRASE")
Answers = Callable[[dict[str, str]], None]


@pytest.fixture
def fleet(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment of a target that this checkout builds; no setting of Pulumi's is inherited."""
    for name in [name for name in os.environ if name.startswith("PULUMI_")]:
        monkeypatch.delenv(name)
    (checkout / "stacks" / "targets").mkdir(parents=True, exist_ok=True)
    (checkout / "stacks" / "targets" / "metal.py").touch()
    (checkout / "Pulumi.fleet.yaml").write_text(
        "config: {slipway:target: metal, slipway:ssh: {}}\n"
    )
    return find("fleet")


@pytest.fixture
def answers(fleet: Environment, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Lets a `pulumi` print an answer for each beginning of its arguments, else nothing."""
    monkeypatch.setattr(prepared.resolve, "tools", lambda *_: {})
    monkeypatch.setattr(prepared, "prepare_plugins", lambda _: "registry-only")
    fleet.pulumi_home.mkdir(parents=True)
    fleet.commands.mkdir()

    def answer(printed: dict[str, str]) -> None:
        cases = "".join(f"'{begin}'*) echo '{text}';;\n" for begin, text in printed.items())
        script = f'#!/bin/sh\necho "$*" >> "$0.calls"\ncase "$*" in\n{cases}esac\n'
        fleet.pulumi.write_text(script)
        fleet.pulumi.chmod(0o755)

    return answer


def calls(fleet: Environment) -> list[str]:
    recorded = fleet.pulumi.with_name("pulumi.calls").read_text().splitlines()
    return [call.removesuffix(" --non-interactive") for call in recorded]


STACKS = '[{"name": "fleet"}]'


def exported(*resources: dict[str, object]) -> str:
    return json.dumps({"version": 3, "deployment": {"resources": resources}})


def test_pulumi_keeps_what_the_user_chose_and_gets_none_of_devs_variables(
    fleet: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not {*OWN} & set(backend.users_pulumi(fleet).variables)
    for name in OWN:
        monkeypatch.setenv(name, "the user's")
    given = backend.users_pulumi(fleet).variables
    assert {given[name] for name in OWN} == {"the user's"}
    assert given["PATH"].split(os.pathsep)[0] == str(fleet.commands)


def test_the_plugins_of_this_checkout_are_found_on_path(fleet: Environment) -> None:
    folders = backend.users_pulumi(fleet).variables["PATH"].split(os.pathsep)[1:5]
    assert {Path(folder).parent for folder in folders} == {fleet.pulumi_home / "plugins"}


def test_what_dev_left_in_the_shell_is_not_taken_for_the_users(
    fleet: Environment, monkeypatch: pytest.MonkeyPatch, runner: CliRunner
) -> None:
    for name, value in fleet.own_backend.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PULUMI_HOME", "the user's")
    given = backend.users_pulumi(fleet).variables
    assert given["PULUMI_HOME"] == "the user's"
    assert not {"PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"} & set(given)
    printed = runner.invoke(app, ["env", "-s", "fleet"]).stdout
    assert "unset PULUMI_BACKEND_URL\n" in printed
    assert "unset PULUMI_CONFIG_PASSPHRASE\n" in printed
    assert "PULUMI_HOME" not in printed


def test_the_exports_turn_no_download_off_before_the_kind_is_known(
    fleet: Environment, runner: CliRunner
) -> None:
    printed = runner.invoke(app, ["env", "-s", "fleet"]).stdout
    assert "PULUMI_DISABLE" not in printed
    fleet.cached_pulumi.parent.mkdir(parents=True)
    fleet.cached_pulumi.touch()
    printed = runner.invoke(app, ["env", "-s", "fleet"]).stdout
    assert "export PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true\n" in printed


def test_the_exports_say_nothing_of_backend_and_passphrase(
    fleet: Environment, runner: CliRunner
) -> None:
    printed = runner.invoke(app, ["env", "-s", "fleet"]).stdout
    assert f"export PYTHONPATH={fleet.checkout / 'src'!s}".replace("=", "='") in printed
    assert not [name for name in (*OWN, DEV_PASSPHRASE) if name in printed]


@pytest.mark.parametrize(
    ("line", "provider"),
    [("", "default"), ("secretsprovider: awskms://alias/fleet\nencryptedkey: abc\n", "awskms:")],
)
def test_a_stack_is_made_with_the_secrets_provider_of_its_file(
    fleet: Environment, answers: Answers, line: str, provider: str
) -> None:
    with (fleet.checkout / "Pulumi.fleet.yaml").open("a") as file:
        file.write(line)
    answers({"stack ls": '[{"name": "other"}, {"name": "organization/slipway/fleet-2"}]'})
    backend.make_stack(backend.users_pulumi(fleet))
    assert calls(fleet)[0] == "stack ls --json"
    assert calls(fleet)[1].startswith(f"stack init fleet --no-select --secrets-provider {provider}")


@pytest.mark.parametrize("name", ["fleet", "acme/slipway/fleet"])
def test_an_existing_stack_is_left_unchanged(
    fleet: Environment, answers: Answers, name: str
) -> None:
    answers({"stack ls": json.dumps([{"name": name}])})
    backend.make_stack(backend.users_pulumi(fleet))
    assert calls(fleet) == ["stack ls --json"]


def test_up_of_a_fleet_asks_no_model_and_its_help_says_so(
    fleet: Environment,
    answers: Answers,
    runner: CliRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    security = SecurityPlan(authorities=(1,), gossip_key=1)
    plan = SimpleNamespace(models=(), ssh=None, pools=(), security=security)
    monkeypatch.setattr(up, "load_inputs", lambda *_: INPUTS)
    monkeypatch.setattr(up, "make_plan", lambda _: plan)
    outputs = '{"gateway": "https://elsewhere"}'
    answers({"stack ls": STACKS, "stack export": exported(), "stack output": outputs})
    result = runner.invoke(app, ["up", "-s", "fleet", "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["outputs"] == {"gateway": "https://elsewhere"}
    assert "models" not in json.loads(result.stdout)
    shown = " ".join(runner.invoke(app, ["up", "--help"]).stdout.split())
    assert "wait until every replica serves" in shown
    assert "Where the gateway is on this machine" in shown


def test_up_of_a_fleet_names_a_host_it_was_done_without_and_fails(
    fleet: Environment,
    answers: Answers,
    runner: CliRunner,
    planned: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = Trouble(host="worker-1", what="is down", fix="power it on", absent=True)
    planned.ssh = SimpleNamespace(makes_host_keys=False)
    monkeypatch.setattr(up, "reaching", lambda *_: nullcontext({}))
    monkeypatch.setattr(up, "fill_cache", lambda *_: None)
    monkeypatch.setattr(up, "make_packages", lambda *_: set())
    monkeypatch.setattr(up, "hosts_without_image", lambda *_: set())
    monkeypatch.setattr(up.backend, "leaving", lambda *_: [])
    monkeypatch.setattr(up, "lasting_troubles", lambda *_: [away])
    answers({"stack ls": STACKS, "stack export": exported(), "stack output": "{}"})
    result = runner.invoke(app, ["up", "-s", "fleet", "--json"])
    assert result.exit_code == 1, result.stderr
    assert json.loads(result.stdout)["troubles"] == [away.document]
    assert result.stderr.rstrip().endswith("worker-1 is down\n    fix: power it on")


def test_down_destroys_and_then_removes_the_empty_stack_never_by_force(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    answers({"stack ls": STACKS, "stack export": exported({"type": "a:b:C", "urn": "u"})})
    result = runner.invoke(app, ["down", "-s", "fleet", "--yes"])
    assert result.exit_code == 0, result.stderr
    assert [call.split(" --")[0] for call in calls(fleet)] == [
        "stack ls",
        "stack export",
        "destroy",
        "stack rm",
    ]
    assert calls(fleet)[-1] == "stack rm --stack fleet --yes --preserve-config"


def test_down_destroys_nothing_while_a_resource_is_protected(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    kept = {"type": "a:b:C", "urn": "urn:pulumi:fleet::slipway::a:b:C::kept", "protect": True}
    free = {"type": "a:b:C", "urn": "urn:pulumi:fleet::slipway::a:b:C::free"}
    answers({"stack ls": STACKS, "stack export": exported(kept, free)})
    result = runner.invoke(app, ["down", "-s", "fleet", "--yes"])
    assert result.exit_code == 1
    assert "a:b:C::kept" in result.stderr
    assert "a:b:C::free" not in result.stderr
    assert "slipway unprotect -s fleet" in result.stderr
    assert [call.split()[0] for call in calls(fleet)] == ["stack", "stack"]


def test_down_says_what_is_wrong_in_files_that_name_the_way_to_the_hosts(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    remote = {"type": "command:remote:Command", "urn": "u"}
    answers({"stack ls": STACKS, "stack export": exported(remote)})
    (fleet.checkout / "Pulumi.fleet.yaml").write_text(
        "config: {slipway:target: metal, slipway:ssh: {}, slipway:pools: 7}\n"
    )
    result = runner.invoke(app, ["down", "-s", "fleet", "--yes"])
    assert result.exit_code != 0
    assert "down needs the files, because they say how the hosts are reached" in result.stderr
    assert "Pulumi.fleet.yaml" in result.stderr
    assert not any(call.startswith("destroy") for call in calls(fleet))


def test_unprotect_names_what_the_next_down_may_destroy(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    kept = {"type": "a:b:C", "urn": "urn:pulumi:fleet::slipway::a:b:C::kept", "protect": True}
    answers({"stack ls": STACKS, "stack export": exported(kept)})
    result = runner.invoke(app, ["unprotect", "-s", "fleet"])
    assert result.exit_code == 0, result.stderr
    assert "no longer protected: kept" in result.stderr
    assert calls(fleet)[-1] == "state unprotect --all --yes --stack fleet"


def test_unprotect_says_when_nothing_is_protected(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    answers({"stack ls": STACKS, "stack export": exported({"type": "a:b:C", "urn": "u"})})
    result = runner.invoke(app, ["unprotect", "-s", "fleet"])
    assert result.exit_code == 0, result.stderr
    assert "has no protected resources" in result.stderr
    assert not [call for call in calls(fleet) if call.startswith("state")]


def test_a_destroy_that_fails_leaves_the_stack(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    answers({"stack ls": STACKS, "stack export": exported({"type": "a:b:C", "urn": "u"})})
    script = fleet.pulumi.read_text()
    fleet.pulumi.write_text(script.replace("esac", "destroy*) exit 255;;\nesac"))
    result = runner.invoke(app, ["down", "-s", "fleet", "--yes"])
    assert result.exit_code == 1
    assert "slipway down -s fleet again" in result.stderr
    assert calls(fleet)[-1].startswith("destroy ")


def test_a_job_that_a_failed_change_left_serving_is_kept_when_the_files_want_it_again(
    fleet: Environment, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"type": "nomad:index/job:Job", "urn": "u::model-a", "id": "model-a-0", "delete": True}
    gone = {**job, "id": "model-a-1"}
    answers({"stack export": exported(job, gone)})
    script = fleet.pulumi.read_text()
    imports = "'stack import'*) cat > \"$0.imported\";;\nesac"
    fleet.pulumi.write_text(script.replace("esac", imports))
    backend.prepare_state(backend.users_pulumi(fleet), wanting("model-a-0", "model-b-0"))
    imported = json.loads(fleet.pulumi.with_name("pulumi.imported").read_text())
    assert imported["deployment"]["resources"] == [{**job, "retainOnDelete": True}, gone]
    assert "still serving and kept: model-a-0\n" in capsys.readouterr().err


def test_a_state_that_needs_no_repair_is_not_imported(fleet: Environment, answers: Answers) -> None:
    answers({"stack export": exported({"type": "a:b:C", "urn": "u"})})
    backend.prepare_state(backend.users_pulumi(fleet), wanting("model-a-0"))
    assert calls(fleet) == ["stack export --stack fleet"]


def wanting(*jobs: str) -> Any:
    """A plan of models with these jobs, and without hosts."""
    models = [SimpleNamespace(stable=SimpleNamespace(job_id=job)) for job in jobs]
    security = SecurityPlan(authorities=(1,), gossip_key=1)
    return SimpleNamespace(models=models, pools=(), security=security)


COMMAND = "urn:pulumi:fleet::slipway::slipway:index:NodePool$command:local:Command::"


def of_host(host: str, *kinds: str) -> list[dict[str, object]]:
    command = {"type": "command:local:Command", "inputs": {"create": "c"}}
    return [{**command, "urn": f"{COMMAND}{kind}-{host}"} for kind in kinds]


def imported(fleet: Environment) -> dict[str, dict[str, object]]:
    """What was imported, by the resources' names."""
    document = json.loads(fleet.pulumi.with_name("pulumi.imported").read_text())
    return {
        str(each["urn"]).removeprefix(COMMAND): each for each in document["deployment"]["resources"]
    }


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The files list worker-1 only."""
    pools = [SimpleNamespace(hosts=[SimpleNamespace(name="worker-1")])]
    security = SecurityPlan(authorities=(1,), gossip_key=1)
    plan = SimpleNamespace(models=(), ssh=None, pools=pools, security=security)
    monkeypatch.setattr(up, "load_inputs", lambda *_: INPUTS)
    monkeypatch.setattr(up, "make_plan", lambda _: plan)
    return plan


@pytest.fixture
def hosts(fleet: Environment, answers: Answers) -> None:
    """worker-0 has joined, worker-1 was admitted only."""
    joined = of_host("worker-0", "delivery", "admission", "node")
    answers(
        {
            "stack ls": STACKS,
            "stack output": "{}",
            "stack export": exported(*joined, *of_host("worker-1", "delivery", "admission")),
        }
    )
    script = fleet.pulumi.read_text()
    imports = "'stack import'*) cat > \"$0.imported\";;\nesac"
    fleet.pulumi.write_text(script.replace("esac", imports))


def test_hosts_of_the_stack_that_are_not_in_the_files_are_leaving() -> None:
    plan: Any = SimpleNamespace(ssh=SimpleNamespace(hosts={"server-0": ..., "worker-1": ...}))
    stack = exported(*(brought_to(host) for host in ("worker-1", "edge-1", "edge-0")))
    assert backend.leaving(stack, plan) == ["address of edge-0", "address of edge-1"]
    over_no_ssh: Any = SimpleNamespace(ssh=None)
    assert backend.leaving(exported(), over_no_ssh) == []


def brought_to(host: str) -> dict[str, object]:
    document = json.dumps({"ssh": {"address": f"address of {host}"}})
    (delivery,) = of_host(host, "delivery")
    return {**delivery, "inputs": {"environment": {"SLIPWAY_DOCUMENT": document}}}


@pytest.mark.usefixtures("hosts")
def test_a_host_that_has_not_joined_is_admitted_again_by_the_next_up(
    fleet: Environment, planned: Any
) -> None:
    backend.prepare_state(backend.users_pulumi(fleet), planned, ())
    again = {name for name, each in imported(fleet).items() if each["inputs"] == {"create": ""}}
    assert again == {"delivery-worker-1", "admission-worker-1"}


@pytest.mark.usefixtures("hosts")
def test_a_host_that_is_to_be_admitted_again_is_applied_as_a_whole(
    fleet: Environment, planned: Any
) -> None:
    backend.prepare_state(backend.users_pulumi(fleet), planned, ["worker-0"])
    again = {name for name, each in imported(fleet).items() if each["inputs"] == {"create": ""}}
    assert {"delivery-worker-0", "admission-worker-0", "node-worker-0"} < again


@pytest.mark.usefixtures("hosts")
def test_an_up_brings_a_host_with_another_python_its_packages_anew_and_nothing_else(
    fleet: Environment, runner: CliRunner, planned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned.pools = []
    monkeypatch.setattr(up, "make_packages", lambda *_: {"worker-0"})
    monkeypatch.setattr(up, "reaching", lambda *_: nullcontext({}))
    result = runner.invoke(app, ["up", "-s", "fleet"])
    assert result.exit_code == 0, result.stderr
    assert "with another Python than before: worker-0" in result.stderr
    again = {name for name, each in imported(fleet).items() if each["inputs"] == {"create": ""}}
    assert again == {"delivery-worker-0"}


@pytest.mark.usefixtures("hosts")
def test_a_host_that_is_not_of_the_stack_is_named_with_those_that_are(
    fleet: Environment, planned: Any
) -> None:
    pulumi = backend.users_pulumi(fleet)
    with pytest.raises(CliError, match="no host x; it has: worker-0, worker-1"):
        backend.prepare_state(pulumi, planned, ["x"])


@pytest.mark.usefixtures("hosts", "planned")
def test_an_up_that_could_not_remove_a_host_says_what_to_do_if_it_is_gone(
    fleet: Environment, runner: CliRunner
) -> None:
    script = fleet.pulumi.read_text()
    fleet.pulumi.write_text(script.replace("esac", "up*) exit 255;;\nesac"))
    result = runner.invoke(app, ["up", "-s", "fleet"])
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "if it is gone for good: slipway forget worker-0 -s fleet" in said


def test_doctor_asks_of_this_machine_only_what_planning_and_applying_need(
    runner: CliRunner, copied: Path
) -> None:
    def checked(stack: str) -> set[str]:
        result = runner.invoke(app, ["doctor", "-s", stack, "--json"])
        return {check["name"] for check in json.loads(result.stdout)}

    assert checked("hosts") == {"system", "user", "C library", "cache folder", "checkout", "tools"}
    assert checked("dev") > checked("hosts") | {"memory", "ports"}


def test_a_backend_that_does_not_answer_is_never_taken_for_a_missing_stack(
    fleet: Environment, answers: Answers, runner: CliRunner
) -> None:
    answers({"": ""})
    fleet.pulumi.write_text("#!/bin/sh\necho 'connection refused' >&2\nexit 255\n")
    result = runner.invoke(app, ["down", "-s", "fleet", "--yes"])
    assert result.exit_code == 1
    assert "connection refused" in result.stderr
    assert "PULUMI_BACKEND_URL" in result.stderr
    with pytest.raises(CliError):
        FleetLifecycle(environment=fleet).state()


def test_down_asks_first(fleet: Environment, runner: CliRunner) -> None:
    result = runner.invoke(app, ["down", "-s", "fleet"])
    assert result.exit_code == 2
    assert "slipway down -s fleet --yes" in result.stderr


@pytest.mark.parametrize("command", [["start"], ["stop"]])
def test_what_needs_processes_of_this_machine_is_refused_and_changes_nothing(
    fleet: Environment, runner: CliRunner, command: list[str]
) -> None:
    before = set(fleet.checkout.parent.rglob("*"))
    result = runner.invoke(app, [*command, "-s", "fleet"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "machine" in result.stderr
    assert "fix: " in result.stderr
    assert set(fleet.checkout.parent.rglob("*")) == before


def test_a_host_that_is_to_be_forgotten_is_named_with_the_file_that_lists_it(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = copied / "Pulumi.hosts.yaml"
    before = stack.read_text()
    listed = "hosts: [{name: worker-0, address: 10.77.0.21}], "
    assert listed in before
    inventory = "config:\n  slipway:inventory: machines.yaml\n"
    stack.write_text(before.replace(listed, "").replace("config:\n", inventory))
    (copied / "machines.yaml").write_text(
        "hosts: [{name: worker-0, address: 10.77.0.21, pool: cpu}]\n"
    )
    machines = HostOperations(environment=find("hosts"))
    known = json.dumps({"host": "worker-0", "ssh": {}})
    (delivery,) = of_host("worker-0", "delivery")
    delivery["inputs"] = {"environment": {"SLIPWAY_DOCUMENT": known}}
    monkeypatch.setattr(backend, "export", lambda _: exported(delivery))
    monkeypatch.setattr(hosts_module, "prepared", lambda *_: nullcontext((SimpleNamespace(), {})))
    with pytest.raises(CliError, match=r"^machines\.yaml still names worker-0$"):
        machines.forget(plan_of(machines.environment), "worker-0", sure=False)
