"""Targets that can be planned and have no components yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.environment import Environment, find
from cli.errors import CliError
from cli.targets import must_be_built
from stacks.targets import is_built
from tests.unit.cli.checkouts import ROOT


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.fixture
def fleet(checkout: Path) -> Environment:
    """An environment of a target that nothing in this checkout builds."""
    (checkout / "Pulumi.fleet.yaml").write_text("config:\n  slipway:target: aws\n")
    return find("fleet")


@pytest.mark.parametrize(
    "command",
    [
        ["up"],
        ["preview"],
        ["preview", "--offline"],
        ["diff"],
        ["start"],
        ["stop"],
        ["down", "--yes"],
        ["status"],
        ["logs", "a-job"],
        ["chat", "a-model", "a question"],
    ],
    ids=" ".join,
)
def test_what_needs_components_is_refused_at_once_and_changes_nothing(
    runner: CliRunner, fleet: Environment, command: list[str]
) -> None:
    before = files(fleet.checkout.parent)
    result = runner.invoke(app, [*command, "-s", "fleet"])
    assert (result.exit_code, result.stdout) == (2, "")
    message, fix = result.stderr.splitlines()  # no phase was begun
    assert message.startswith(
        'slipway: Pulumi.fleet.yaml: slipway:target: "aws" has no components yet'
    )
    assert "fix: slipway plan -s fleet" in fix
    assert files(fleet.checkout.parent) == before


def test_a_target_that_can_be_built_is_not_refused(fleet: Environment) -> None:
    targets = fleet.checkout / "stacks" / "targets"
    targets.mkdir(parents=True, exist_ok=True)
    with pytest.raises(CliError):
        must_be_built(fleet)
    (targets / "aws.py").write_text("")
    for section in ("aws", "ssh"):
        with pytest.raises(CliError, match=f"slipway:{section} is missing"):
            must_be_built(fleet)
        with (fleet.checkout / "Pulumi.fleet.yaml").open("a") as file:
            file.write(f"  slipway:{section}: {{}}\n")
    must_be_built(fleet)


@pytest.mark.parametrize(
    "text",
    ["config: {slipway:target: awz}", "config: {slipway:target: [aws]}", "config: 5", "config: {"],
)
def test_a_mistake_in_the_stack_file_is_left_to_those_who_read_all_of_it(
    fleet: Environment, text: str
) -> None:
    (fleet.checkout / "Pulumi.fleet.yaml").write_text(text)
    must_be_built(fleet)


@pytest.mark.parametrize("target", ["", "__init__", "../targets/dev", "dev.py", "kubernetes"])
def test_a_target_without_a_module_of_its_name_is_not_built(target: str) -> None:
    assert is_built("dev", ROOT)
    assert not is_built(target, ROOT)


def test_planning_for_a_target_that_is_built_loads_neither_pulumi_nor_cryptography(
    in_new_python: Callable[[str], str],
) -> None:
    program = (
        "import sys; from cli.app import app; from cli.environment import find\n"
        "from cli.targets import can_be_built\n"
        "for stack in ('dev', 'aws'):\n"
        "    app(['plan', '-s', stack, '--json'], standalone_mode=False)\n"
        "    can_be_built(find(stack))\n"
        # Providers' SDKs are executed on use (components/provider_sdks.py), which loads pulumi.
        "sys.exit(sorted({'pulumi', 'cryptography'} & sys.modules.keys()) or None)"
    )
    in_new_python(program)


def test_what_was_never_brought_up_and_could_be_is_told_how(
    runner: CliRunner, checkout: Path
) -> None:
    result = runner.invoke(app, ["start"])
    assert result.exit_code == 1
    assert "fix: slipway up -s dev" in result.stderr


def test_doctor_names_the_plan_as_the_way_on(runner: CliRunner, fleet: Environment) -> None:
    result = runner.invoke(app, ["doctor", "-s", "fleet"])
    assert result.exit_code == 1
    assert "has no components yet" in result.stdout
    assert "fix: slipway plan -s fleet shows what it needs" in result.stdout
