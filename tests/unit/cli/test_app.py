from __future__ import annotations

import errno
import importlib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from cli import app as app_module
from cli.app import COMMANDS, app
from cli.errors import CliError, explained
from slipway.config.errors import ConfigError, Problem
from toolchain.errors import CancelledError, ToolchainError


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_line_of_its_help(name: str) -> None:
    module = importlib.import_module(f"cli.commands.{name}")
    command = typer.main.get_command(module.app)
    assert (command.help or "").splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(runner: CliRunner, name: str) -> None:
    result = runner.invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"Usage: slipway {name}" in result.output


def test_the_list_of_commands_loads_none_of_them(in_new_python: Callable[[str], str]) -> None:
    program = (
        "import sys; from cli.app import app; app(['--help'], standalone_mode=False);"
        "sys.exit(any(m in sys.modules for m in"
        " ('cli.commands.up', 'httpx', 'pydantic', 'tritonclient', 'psutil',"
        " 'cryptography')))"
    )
    shown = in_new_python(program)
    assert all(name in shown for name in COMMANDS)


def test_no_command_loads_cryptography_before_it_has_a_certificate_to_read(
    in_new_python: Callable[[str], str],
) -> None:
    program = (
        "import importlib, sys; from cli.app import COMMANDS\n"
        "for name in COMMANDS: importlib.import_module(f'cli.commands.{name}')\n"
        "for name in ('local', 'fleet'):\n"
        "    importlib.import_module(f'cli.lifecycle.{name}.lifecycle')\n"
        "sys.exit([name for name in sys.modules if name.startswith('cryptography')] or None)"
    )
    in_new_python(program)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plna"],
        ["up", "--no-such-option"],
        ["chat", "smollm2"],
        ["chat", "smollm2", "hello", "--max-tokens", "0"],
    ],
)
def test_wrong_usage_exits_with_2(runner: CliRunner, arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "name", ["up", "preview", "plan", "status", "stop", "start", "down", "env"]
)
def test_an_unknown_environment_is_refused_with_the_ones_there_are(
    runner: CliRunner, checkout: Path, name: str
) -> None:
    (checkout / "Pulumi.dev2.yaml").write_text("config: {}\n")
    result = runner.invoke(app, [name, "-s", "prod"])
    assert result.exit_code == 2
    assert "Pulumi.prod.yaml" in result.stderr
    assert "use one of: dev, dev2" in result.stderr
    assert not (checkout / ".slipway").exists()


@pytest.mark.parametrize("name", ["up", "preview", "plan"])
def test_a_mistake_in_a_file_names_it_with_key_and_fix_and_changes_nothing(
    runner: CliRunner, checkout: Path, name: str
) -> None:
    (checkout / "Pulumi.dev.yaml").write_text("config:\n  slipway:targte: dev\n")
    result = runner.invoke(app, [name])
    assert result.exit_code == 2
    assert "Pulumi.dev.yaml:2: slipway:targte" in result.stderr
    assert "fix: did you mean" in result.stderr
    assert "Traceback" not in result.output
    assert not (checkout / ".slipway").exists()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("status", []), ("start", []), ("chat", ["smollm2", "hello"]), ("logs", ["envoy"])],
)
def test_commands_about_what_runs_say_how_to_get_there(
    runner: CliRunner, checkout: Path, name: str, arguments: list[str]
) -> None:
    result = runner.invoke(app, [name, *arguments])
    assert result.exit_code == 1
    assert "slipway up -s dev" in result.stderr


def test_down_asks_first_and_refuses_where_nobody_can_answer(
    runner: CliRunner, checkout: Path
) -> None:
    result = runner.invoke(app, ["down"])
    assert result.exit_code == 2
    assert "slipway down -s dev --yes" in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (CliError("no", fix="do", exit_code=2), 2, "no"),
        (ToolchainError("no nomad", fix="get it"), 1, "no nomad"),
        (ToolchainError("bad setting", fix="x", exit_code=2), 2, "bad setting"),
        (
            ConfigError([Problem(source="a.yaml", key="k", message="is wrong", fix="mend it")]),
            2,
            "a.yaml: k: is wrong",
        ),
        (KeyboardInterrupt(), 130, "it continues from here"),
        (CancelledError("x"), 130, "it continues from here"),
        (OSError(errno.ENOSPC, "No space left on device", "/c/file"), 1, "/c/file"),
        (PermissionError(errno.EACCES, "Permission denied", "/c"), 1, "/c"),
        (
            httpx.ConnectError(
                "refused", request=httpx.Request("GET", "http://127.96.0.9:4646/v1")
            ),
            1,
            "127.96.0.9:4646",
        ),
    ],
)
def test_a_known_failure_becomes_a_message_a_fix_and_an_exit_code(
    runner: CliRunner,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    text: str,
) -> None:
    result = _run_failing(runner, monkeypatch, error)
    assert result.exit_code == code
    assert text in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.output


def test_advice_about_what_does_not_answer_holds_for_every_target() -> None:
    request = httpx.Request("GET", "http://127.96.0.9:4646/v1")
    failure = explained(httpx.ConnectError("refused", request=request), "diff")
    assert failure is not None
    assert failure.fix.startswith("slipway status shows what runs")
    assert "slipway start" not in failure.fix


def test_a_defect_of_ours_is_not_dressed_up_as_a_mistake_of_the_user(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ZeroDivisionError()
    assert explained(error, "up") is None
    assert _run_failing(runner, monkeypatch, error).exception is error


def test_the_end_of_a_pipes_reader_is_no_failure(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run_failing(runner, monkeypatch, BrokenPipeError()).exit_code == 0


def _run_failing(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> object:
    failing = typer.Typer()

    @failing.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr(app_module, "_loaded", lambda _: typer.main.get_command(failing))
    return runner.invoke(app, ["env"])
