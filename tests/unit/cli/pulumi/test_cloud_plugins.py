"""Where AWS's official plugin is missing, commands say so before they begin."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.environment import Environment, find
from cli.errors import CliError
from cli.pulumi import cloud_plugins

CHECKOUT = Path(__file__).parents[4]
VERSION = "7.51.1"
BUILT = "config: {slipway:target: aws, slipway:aws: {}, slipway:ssh: {}}\n"


@pytest.fixture
def cloud(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """An environment on AWS, with a Pulumi that was built here."""
    targets = checkout / "stacks" / "targets"
    targets.mkdir(parents=True, exist_ok=True)
    (targets / "aws.py").touch()
    (checkout / "Pulumi.cloud.yaml").write_text(BUILT)
    shutil.copy(CHECKOUT / "requirements-aws.txt", checkout)
    monkeypatch.setattr(cloud_plugins.resolve, "tools", lambda *_: {})
    monkeypatch.setattr(cloud_plugins, "plugin_kind", lambda _: "registry-only")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    return find("cloud")


def put(program: Path) -> None:
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)


@pytest.mark.parametrize("command", [["up"], ["preview"], ["down", "--yes"]])
def test_without_it_a_command_names_what_works(
    cloud: Environment, runner: CliRunner, command: list[str]
) -> None:
    result = runner.invoke(app, [*command, "-s", "cloud"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"official aws plugin {VERSION} is not installed" in result.stderr
    for works in ("slipway plan", "slipway policies", "slipway preview --offline"):
        assert works in result.stderr


def test_an_installed_one_of_the_same_version_is_used(cloud: Environment, tmp_path: Path) -> None:
    plugins = tmp_path / "pulumi" / "plugins"
    put(plugins / "resource-aws-v7.0.0" / "pulumi-resource-aws")
    with pytest.raises(CliError):
        cloud_plugins.must_have_plugins(cloud)
    put(plugins / f"resource-aws-v{VERSION}" / "pulumi-resource-aws")
    cloud_plugins.must_have_plugins(cloud)


def test_one_on_path_is_used(
    cloud: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "bin" / "pulumi-resource-aws")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    cloud_plugins.must_have_plugins(cloud)


def test_a_pulumi_that_downloads_plugins_is_asked_nothing(
    cloud: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_plugins, "plugin_kind", lambda _: "official")
    cloud_plugins.must_have_plugins(cloud)


def test_the_version_is_that_of_the_sdk_which_is_not_beside_the_program() -> None:
    assert cloud_plugins.version_of("aws", CHECKOUT) == VERSION
    assert "pulumi-aws" not in (CHECKOUT / "requirements.txt").read_text()
