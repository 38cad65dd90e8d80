"""Running Pulumi, with a stand-in that records how it was called."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cli.environment import Environment
from cli.errors import CliError, InterruptedRunError
from cli.lifecycle.local.backend import own_pulumi, prepare_stack
from cli.progress import board
from cli.pulumi.plugins import prepare_plugins
from cli.pulumi.process import is_news
from cli.pulumi.resource_rows import resource_row
from cli.pulumi.state import read_state
from tests.unit.cli.checkouts import ROOT
from tests.unit.cli.pulumi.test_locks import ended_pid, put_lock
from tests.unit.cli.pulumi.test_state import put_checkpoint
from tests.waiting import HANG_S, until
from toolchain.plugins.install import folders
from toolchain.settings import default_cache

# A server of plugins that only Pulumi knows.
OWN_SERVER = {"PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES": ".*=https://plugins.test"}
CACHE = default_cache()  # the real one: the fixtures set another


@pytest.fixture
def stand_in(environment: Environment, tmp_path: Path) -> StandIn:
    return StandIn(environment, tmp_path)


class StandIn:
    """A `pulumi` that runs `script` (sh) and notes its arguments, one call a line."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.pulumi = own_pulumi(environment)
        self.log = folder / "pulumi.log"
        self._calls = folder / "calls"
        self._binary = environment.pulumi
        self.does("exit 0")

    def does(self, script: str) -> None:
        self._binary.parent.mkdir(parents=True, exist_ok=True)
        self._binary.write_text(f'#!/bin/sh\necho "$*" >> "{self._calls}"\n{script}\n')
        self._binary.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


def test_up_applies_without_questions_and_keeps_the_whole_output(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.does("echo ' +  nomad:index:Job envoy creating'; echo '@ Updating....'; pwd >&2")
    stand_in.pulumi.up(log=stand_in.log)
    assert stand_in.calls == [
        "up --stack dev --yes --skip-preview --suppress-outputs --color never --non-interactive"
    ]
    shown = capsys.readouterr()
    assert "envoy creating" in shown.err
    assert str(stand_in.pulumi.environment.checkout) in shown.err
    assert "@ Updating" not in shown.err
    assert "@ Updating" in stand_in.log.read_text()
    assert shown.out == ""


@pytest.mark.parametrize(("refreshed", "flags"), [(True, ""), (False, "--refresh=false ")])
def test_only_some_resources_are_applied_with_or_without_a_look_at_them(
    stand_in: StandIn, refreshed: bool, flags: str
) -> None:
    stand_in.pulumi.up(log=stand_in.log, only=["urn:a", "urn:b"], refreshed=refreshed)
    (call,) = stand_in.calls
    assert call.endswith(f"never {flags}--target urn:a --target urn:b --non-interactive")


def test_what_is_to_happen_meanwhile_happens_while_pulumi_runs(
    stand_in: StandIn, tmp_path: Path
) -> None:
    happened = tmp_path / "happened"
    stand_in.does(f"for i in $(seq 6000); do [ -e {happened} ] && exit 0; sleep 0.01; done; exit 1")
    stand_in.pulumi.up(log=stand_in.log, meanwhile=happened.touch)


def test_a_failed_update_is_a_failure_that_names_the_log(stand_in: StandIn) -> None:
    stand_in.does("exit 255")
    with pytest.raises(CliError, match=r"pulumi\.log") as failed:
        stand_in.pulumi.up(log=stand_in.log)
    assert failed.value.exit_code == 1


def test_a_destroy_that_fails_says_that_nothing_is_forgotten(stand_in: StandIn) -> None:
    stand_in.does("exit 255")
    with pytest.raises(CliError, match="the state keeps what still exists") as failed:
        stand_in.pulumi.destroy(log=stand_in.log)
    assert failed.value.exit_code == 1
    assert "slipway down -s dev again" in failed.value.fix
    assert stand_in.calls == [
        "destroy --stack dev --yes --skip-preview --suppress-outputs --color never"
        " --non-interactive"
    ]


def test_the_kind_of_plugins_is_kept_before_an_update_and_not_before_a_preview(
    stand_in: StandIn,
) -> None:
    record = stand_in.pulumi.environment.pulumi_home / "plugin-kind"
    assert stand_in.pulumi.preview([]) == 0
    assert not record.exists()
    stand_in.does(f'cat "{record}"')
    stand_in.pulumi.up(log=stand_in.log)
    assert stand_in.log.read_text() == "registry-only\n"


@pytest.mark.parametrize("code", [0, 255], ids=["done", "failed"])
def test_official_plugins_that_a_run_has_downloaded_are_kept_wherever_its_home_is(
    stand_in: StandIn, tmp_path: Path, code: int
) -> None:
    environment, home = stand_in.pulumi.environment, tmp_path / "home"
    put_language_host(environment)
    plugin = folders(home, Path(sys.executable))["nomad"] / "pulumi-resource-nomad"
    stand_in.does(f'mkdir -p "{plugin.parent}"; printf "\\177ELF" > "{plugin}"; exit {code}')
    variables = {**stand_in.pulumi.variables, "PULUMI_HOME": str(home), **OWN_SERVER}
    pulumi = dataclasses.replace(stand_in.pulumi, variables=variables)
    with contextlib.suppress(CliError):
        pulumi.up(log=stand_in.log)
    assert (environment.pulumi_home / "plugin-kind").read_text() == "official\n"


def put_language_host(environment: Environment) -> None:
    """As in a release of Pulumi, which downloads official plugins."""
    release = environment.cached_pulumi
    release.parent.mkdir(parents=True)
    release.touch()
    release.with_name("pulumi-language-python").write_bytes(b"\x7fELF")


@pytest.mark.parametrize("begun", [True, False], ids=["begun so", "at the first run"])
def test_without_plugins_and_without_their_server_pulumi_is_not_even_started(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    environment = stand_in.pulumi.environment
    put_language_host(environment)
    if begun:
        environment.pulumi_home.mkdir(parents=True)
        (environment.pulumi_home / "plugin-kind").write_text("official\n")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.90.0.2:9")  # nobody listens there
    for call in (
        lambda: stand_in.pulumi.preview([]),
        lambda: stand_in.pulumi.up(log=stand_in.log),
        lambda: stand_in.pulumi.destroy(log=stand_in.log),
    ):
        with pytest.raises(
            CliError, match=r"nomad 2\.6\.1.*get\.pulumi\.com.*not answer"
        ) as failed:
            call()
        assert failed.value.fix.startswith("give this machine access to get.pulumi.com")
        assert ("SLIPWAY_TOOL_SOURCES=wheel,module slipway up" in failed.value.fix) is not begun
    assert stand_in.calls == []


def test_a_run_that_failed_before_official_plugins_were_installed_says_what_to_do(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    put_language_host(stand_in.pulumi.environment)
    stand_in.does("exit 255")
    variables = {**stand_in.pulumi.variables, **OWN_SERVER}
    pulumi = dataclasses.replace(stand_in.pulumi, variables=variables)
    assert pulumi.preview([]) == 255
    assert "the official provider plugins are not installed" in capsys.readouterr().err
    with pytest.raises(CliError):
        pulumi.up(log=stand_in.log)
    assert "the official provider plugins are not installed" in capsys.readouterr().err


def test_pulumi_gets_the_variables_of_the_environment_and_not_our_own(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "ours")
    stand_in.does("env")
    stand_in.pulumi.up(log=stand_in.log)
    given = dict(line.split("=", 1) for line in stand_in.log.read_text().splitlines())
    environment = stand_in.pulumi.environment
    assert given["PULUMI_HOME"] == str(environment.pulumi_home)
    assert given["SLIPWAY_RUN"] == str(environment.run)
    assert given["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "true"
    assert given["PYTHONPATH"] == f"{environment.checkout}/src:{environment.checkout}"


def interrupt_when(log: Path, *lines: str) -> None:
    """Sends this process SIGINT for each line of the log, as a terminal's Ctrl-C would."""

    def watch() -> None:
        for line in lines:
            wait_for_line(line, log)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch).start()


def test_an_interrupt_reaches_pulumi_and_its_clean_end_is_waited_for(stand_in: StandIn) -> None:
    stand_in.does(
        "trap 'echo ends in order; sleep 0.3; echo done; exit 1' INT\n"
        "echo started; while :; do sleep 0.05; done"
    )
    before = signal.getsignal(signal.SIGINT)  # ignored where a shell started us in the background
    interrupt_when(stand_in.log, "started")
    with pytest.raises(InterruptedRunError) as ended:
        stand_in.pulumi.up(log=stand_in.log)
    assert ended.value.exit_code == 130
    assert "slipway up -s dev" in ended.value.fix
    assert stand_in.log.read_text().splitlines() == ["started", "ends in order", "done"]
    assert signal.getsignal(signal.SIGINT) is before


TRACEBACK = """\
echo '    pulumi:pulumi:Stack slipway-dev running Traceback (most recent call last):'
echo '    pulumi:pulumi:Stack slipway-dev running   File "exec", line 1, in <module>'
echo '    pulumi:pulumi:Stack slipway-dev running KeyboardInterrupt'
echo 'Diagnostics:'
echo '  pulumi:pulumi:Stack (slipway-dev):'
echo '    Traceback (most recent call last):'
echo '      File "exec", line 1, in <module>'
echo '    KeyboardInterrupt'
echo '    error: update canceled'
"""


def test_the_traceback_of_an_interrupted_program_is_in_the_log_alone(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.does(
        f"trap '. {stand_in.log}.end; exit 1' INT\necho started; while :; do sleep 0.05; done"
    )
    stand_in.log.with_name(f"{stand_in.log.name}.end").write_text(TRACEBACK)
    interrupt_when(stand_in.log, "started")
    with pytest.raises(InterruptedRunError):
        stand_in.pulumi.up(log=stand_in.log)
    shown = capsys.readouterr().err
    assert "update canceled" in shown
    assert "KeyboardInterrupt" not in shown
    assert "File" not in shown
    assert stand_in.log.read_text().count("KeyboardInterrupt") == 2


# Waits where the program reads its files.
WAITING = """
import runpy, time
import pulumi
from slipway import inputs

def wait(*_, **__):
    print("started", flush=True)
    time.sleep(60)

inputs.load_inputs, pulumi.get_stack = wait, lambda: "dev"
runpy.run_path("__main__.py", run_name="__main__")
"""


@pytest.mark.thorough
@pytest.mark.usefixtures("python_path")
def test_the_program_ends_at_an_interrupt_without_a_traceback_in_a_preview_too() -> None:
    """A preview's output goes to the user's terminal unfiltered."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"started\n"
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=HANG_S)
    assert (program.returncode, said) == (-signal.SIGINT, b"")


def test_the_traceback_of_a_program_that_failed_by_itself_is_shown(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.does(f"{TRACEBACK}\nexit 1")
    with pytest.raises(CliError):
        stand_in.pulumi.up(log=stand_in.log)
    assert capsys.readouterr().err.count("KeyboardInterrupt") == 2


def test_a_second_interrupt_is_passed_on_too(stand_in: StandIn) -> None:
    stand_in.does(
        "trap 'count=x$count; echo got $count; [ $count = xx ] && exit 1' INT\n"
        "echo started; while :; do sleep 0.05; done"
    )
    interrupt_when(stand_in.log, "started", "got x")
    with pytest.raises(InterruptedRunError):
        stand_in.pulumi.up(log=stand_in.log)
    assert "got xx" in stand_in.log.read_text()


def test_an_interrupt_while_pulumi_is_being_started_is_not_lost(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = subprocess.Popen

    def interrupted_start(*arguments: Any, **options: Any) -> Any:
        process = started(*arguments, **options)
        while "started" not in stand_in.log.read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted_start)
    stand_in.does("trap 'exit 1' INT\necho started; while :; do sleep 0.05; done")
    with pytest.raises(InterruptedRunError):
        stand_in.pulumi.up(log=stand_in.log)


@pytest.mark.usefixtures("python_path")
def test_pulumi_ends_cleanly_when_this_program_is_killed(stand_in: StandIn) -> None:
    stand_in.does(
        "trap 'echo ends in order; exit 1' INT\necho started; while :; do sleep 0.05; done"
    )
    environment = stand_in.pulumi.environment
    program = (
        "from pathlib import Path; from cli.environment import Environment;"
        "from cli.lifecycle.local.backend import own_pulumi;"
        f"e = Environment(name='dev', checkout=Path({str(environment.checkout)!r}),"
        f" cache=Path({str(environment.cache)!r}));"
        f"own_pulumi(e).up(log=Path({str(stand_in.log)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        wait_for_line("started", stand_in.log)
        process.kill()
    wait_for_line("ends in order", stand_in.log)


def wait_for_line(line: str, log: Path) -> None:
    until(lambda: log.exists() and line in log.read_text(), line, log=log)


OUTPUT = """\
Updating (dev):

 +  slipway:index:Platform platform creating (0s)
 +  command:local:Command node-cpu-0 creating (0s)
@ updating....
 +  command:local:Command node-cpu-0 creating (2s) consul on cpu-0: answers after 1.4 s
 +  command:local:Command node-cpu-0 created (4s) nomad on cpu-0: answers after 0.9 s
 ~  nomad:index:Job envoy updating (0s) [diff: ~jobspec]
 ~  nomad:index:Job envoy updating (1s) warning: it is slow
 ~  nomad:index:Job envoy updated (1s)
 ++ nomad:index:Job model-a creating replacement (0s)
 ++ nomad:index:Job model-a **creating failed** error: no such pool
 +  slipway:index:Platform platform created (4s)
"""


def test_a_log_gets_a_line_of_each_resource_once_it_has_changed_and_every_trouble(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.log.with_name("printed").write_text(OUTPUT)
    stand_in.does(f"cat {stand_in.log.with_name('printed')}")
    stand_in.pulumi.up(log=stand_in.log)
    assert [line.strip() for line in capsys.readouterr().err.splitlines()] == [
        "Updating (dev):",
        "+  command:local:Command node-cpu-0 created (4s) nomad on cpu-0: answers after 0.9 s",
        "~  nomad:index:Job envoy updating (1s) warning: it is slow",
        "~  nomad:index:Job envoy updated (1s)",
        "++ nomad:index:Job model-a **creating failed** error: no such pool",
    ]
    assert board.work().operations == ()


@pytest.mark.parametrize(
    ("line", "state", "progress"),
    [
        (" +  random:index:RandomPassword seed created (0.01s) ", "created", "changed"),
        (" ++ nomad:index:Job a creating replacement (0s) ", "creating replacement", "changing"),
        (" +- nomad:index:Job a replaced (0.00s) ", "replaced", "changed"),
        (" -- nomad:index:Job a deleting original (0s) ", "deleting original", "changing"),
        (" -  pulumi:providers:nomad nomad deleted (0.2s) the end", "deleted", "changed"),
        (" +  nomad:index:Job a **creating failed** error: no pool", "creating failed", "failed"),
    ],
)
def test_rows_of_resources_are_read(line: str, state: str, progress: str) -> None:
    row = resource_row(f"{line}\n")
    assert row is not None
    assert (row.state, row.progress) == (state, progress)
    assert row.must_be_read is (progress == "failed")


def test_what_a_command_says_is_read_without_the_differences() -> None:
    row = resource_row(" ~  command:local:Command a updating (1s) [diff: ~create]; 1 of 2 answer")
    assert row is not None
    assert (row.key, row.said) == ("command:local:Command a", "1 of 2 answer")


@pytest.mark.parametrize(
    "line",
    [
        "Diagnostics:",
        "  nomad:index:Job (a):",
        "    error: no such pool",
        "    pulumi:pulumi:Stack slipway-dev running Traceback (most recent call last):",
        "Resources:",
        "    + 32 created",
    ],
)
def test_other_lines_are_no_rows_of_resources(line: str) -> None:
    assert resource_row(line) is None


def test_a_line_that_comes_in_pieces_is_judged_as_a_whole(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cli.pulumi.process._TICK_S", 0.02)
    stand_in.does(
        "printf ' ~  nomad:index:Job envoy refre'; sleep 0.15; echo 'shing (0s)';"
        "printf ' ~  nomad:index:Job xds upd'; sleep 0.15; printf 'ating'"
    )
    stand_in.pulumi.up(log=stand_in.log)
    said = capsys.readouterr().err
    assert "envoy" not in said
    assert "nomad:index:Job xds updating\n" in said


def test_a_missing_stack_is_made(stand_in: StandIn) -> None:
    prepare_stack(stand_in.pulumi)
    assert stand_in.calls == ["stack init dev --secrets-provider passphrase --non-interactive"]


def test_an_existing_stack_is_left_as_it_is(stand_in: StandIn) -> None:
    put_checkpoint(stand_in.pulumi.environment, {"resources": []})
    prepare_stack(stand_in.pulumi)
    assert stand_in.calls == []


def test_interrupted_creations_are_dropped_by_importing_an_export(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    pending = {"type": "creating", "resource": {"urn": "urn:pulumi:dev::slipway::a:b:C::envoy"}}
    put_checkpoint(stand_in.pulumi.environment, {"pending_operations": [pending]})
    given = stand_in.log.with_name("given")
    stand_in.does(f'[ "$2" = export ] && echo "{{}}" || cat > "{given}"')
    prepare_stack(stand_in.pulumi)
    assert [call.split()[:2] for call in stand_in.calls] == [
        ["stack", "export"],
        ["stack", "import"],
    ]
    assert given.read_text() == "{}\n"
    assert "envoy" in capsys.readouterr().err


JOB = {"type": "nomad:index/job:Job", "urn": "u"}


def exports(stand_in: StandIn, resources: list[dict[str, Any]]) -> Path:
    """Lets Pulumi export these resources; returns the file with what it is told to import."""
    put_checkpoint(stand_in.pulumi.environment, {"resources": resources})
    exported = stand_in.log.with_name("exported")
    exported.write_text(json.dumps({"version": 3, "deployment": {"resources": resources}}))
    given = stand_in.log.with_name("given")
    stand_in.does(f'[ "$2" = export ] && cat "{exported}" || cat > "{given}"')
    return given


def test_a_job_that_serves_again_is_forgotten_by_its_mark_and_not_deleted(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = [
        JOB | {"id": "model-a-new"},
        JOB | {"id": "model-a-old", "delete": True},
        JOB | {"id": "model-b-old", "delete": True},
        {"type": "consul:index/keys:Keys", "urn": "v", "id": "model-a-old", "delete": True},
    ]
    given = exports(stand_in, resources)
    prepare_stack(stand_in.pulumi, ["model-a-old", "model-c-new"])
    kept = json.loads(given.read_text())["deployment"]["resources"]
    assert kept == [
        resources[0],
        resources[1] | {"retainOnDelete": True},
        resources[2],
        resources[3],
    ]
    assert "model-a-old" in capsys.readouterr().err


def test_a_job_kept_by_a_run_that_failed_is_deleted_once_it_is_no_longer_wanted(
    stand_in: StandIn,
) -> None:
    marked = JOB | {"id": "model-a-old", "delete": True}
    given = exports(stand_in, [marked | {"retainOnDelete": True}])
    prepare_stack(stand_in.pulumi, ["model-a-newer"])
    assert json.loads(given.read_text())["deployment"]["resources"] == [marked]


@pytest.mark.parametrize("wanted", [["model-a-new"], []])
def test_a_replaced_job_that_is_not_wanted_stays_marked(
    stand_in: StandIn, wanted: list[str]
) -> None:
    given = exports(stand_in, [JOB | {"id": "model-a-old", "delete": True}])
    prepare_stack(stand_in.pulumi, wanted)
    assert not given.exists()


NODE = {"type": "command:local:Command", "inputs": {"create": "apply", "environment": {"A": "1"}}}


def test_a_node_whose_removal_did_not_end_is_applied_again_when_it_is_wanted_again(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = [NODE | {"urn": f"urn:pulumi:dev::slipway::C::node-cpu-{n}"} for n in range(3)]
    given = exports(stand_in, resources)
    for host in ("cpu-1", "cpu-2"):
        mark = stand_in.pulumi.environment.run / "nodes" / host / "leaving"
        mark.parent.mkdir(parents=True)
        mark.touch()
    prepare_stack(stand_in.pulumi, (), ["cpu-0", "cpu-1"])
    applied = {"create": "apply", "environment": {}}
    assert json.loads(given.read_text())["deployment"]["resources"] == [
        resources[0],
        resources[1] | {"inputs": applied},
        resources[2],
    ]
    assert "brought back: cpu-1\n" in capsys.readouterr().err


def test_a_state_that_is_ready_is_not_written_again(stand_in: StandIn) -> None:
    given = exports(stand_in, [JOB | {"id": "a", "delete": True, "retainOnDelete": True}])
    prepare_stack(stand_in.pulumi, ["a"])
    assert not given.exists()


def test_stale_locks_are_removed_before_pulumi_sees_them(stand_in: StandIn) -> None:
    lock = put_lock(stand_in.pulumi.environment, ended_pid())
    put_checkpoint(stand_in.pulumi.environment, {})
    prepare_stack(stand_in.pulumi)
    assert not lock.exists()


def test_a_refused_preparation_repeats_what_pulumi_said(stand_in: StandIn) -> None:
    stand_in.does("echo 'incorrect passphrase' >&2; exit 255")
    with pytest.raises(CliError, match="incorrect passphrase"):
        prepare_stack(stand_in.pulumi)


@pytest.mark.parametrize(
    ("line", "news"),
    [
        (" +  nomad:index:Job envoy creating (0s)", True),
        (" ~  nomad:index:Job envoy updated (1s) [diff: ~jobspec]", True),
        ("error: update failed", True),
        ("    consul on cpu-0: answers after 1.2 s", True),
        (" ~  nomad:index:Job envoy refreshing (0s)", False),
        (" ~  consul:index:Keys model-a-route refresh", False),
        ("    nomad:index:Job model-sim-b  ", False),
        ("    pulumi:pulumi:Stack slipway-dev running ", False),
        ("    pulumi:pulumi:Stack slipway-dev  error: the program failed", True),
        ("    [command] xds: connection refused", True),
        (
            " +  pulumi:pulumi:Stack slipway-a creating (0s) warning: using pulumi-resource-random"
            " from $PATH at /c/pulumi-resource-random",
            False,
        ),
        ("@ Updating....", False),
        ("@ updating....", False),
        ("....", False),
        ("", False),
    ],
)
def test_only_changes_messages_and_errors_are_news(line: str, news: bool) -> None:
    assert is_news(f"{line}\n") is news


@pytest.mark.binaries
def test_a_real_pulumi_makes_unlocks_and_repairs_a_stack(checkout: Path, tmp_path: Path) -> None:
    environment = Environment(name="dev", checkout=checkout, cache=CACHE)
    assert environment.cached_pulumi.exists(), "run `slipway tools --install`"
    (checkout / "Pulumi.yaml").write_text("{name: slipway, runtime: python}\n")
    pulumi = own_pulumi(environment)
    environment.state.mkdir(parents=True)
    prepare_plugins(environment)
    prepare_stack(pulumi)
    salt = (checkout / "Pulumi.dev.yaml").read_text()
    assert "encryptionsalt" in salt

    add_pending_creation(environment)
    put_lock(environment, ended_pid())
    prepare_stack(pulumi)
    state = read_state(environment)
    assert state is not None
    assert state.interrupted == ()
    assert (checkout / "Pulumi.dev.yaml").read_text() == salt


def add_pending_creation(environment: Environment) -> None:
    path = environment.state / ".pulumi" / "stacks" / "slipway" / "dev.json"
    document = json.loads(path.read_text())
    document["checkpoint"]["latest"]["pending_operations"] = [
        {
            "type": "creating",
            "resource": {
                "urn": "urn:pulumi:dev::slipway::slipway:index:Gateway::envoy",
                "custom": False,
                "type": "slipway:index:Gateway",
            },
        }
    ]
    path.write_text(json.dumps(document))
    found = read_state(environment)
    assert found is not None
    assert found.interrupted == ("envoy",)
