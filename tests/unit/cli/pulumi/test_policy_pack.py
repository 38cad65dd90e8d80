"""What `slipway preview` tells Pulumi of the policies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from cli.environment import Environment
from cli.errors import CliError
from cli.pulumi import policy_pack
from cli.pulumi.policy_pack import policy_arguments
from cli.pulumi.state import read_state
from tests.unit.cli.pulumi.test_state import put_checkpoint
from toolchain.prepare import EnvironmentJob


@pytest.fixture
def made(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policies' environment; it needs no making."""
    target = environment.cache / "envs" / "policies-1a2b"
    (environment.checkout / "policies").mkdir()
    environment.make_pulumi_folders()

    def prepare(jobs: Iterable[EnvironmentJob], *_: object) -> dict[str, Path]:
        (job,) = jobs
        assert job.requirements == environment.checkout / "policies" / "requirements.txt"
        return {job.name: target}

    monkeypatch.setattr(policy_pack, "prepare", prepare)
    return target


def configuration(environment: Environment) -> dict[str, dict[str, float]]:
    _, option = policy_arguments(environment, read_state(environment))
    path = Path(option.removeprefix("--policy-pack-config="))
    parsed: dict[str, dict[str, float]] = json.loads(path.read_text())
    return parsed


def test_the_pack_is_the_checkouts_own_and_its_environment_lies_where_the_pack_looks(
    environment: Environment, made: Path
) -> None:
    folder = environment.checkout / "policies"
    assert policy_arguments(environment, read_state(environment))[0] == f"--policy-pack={folder}"
    assert (folder / ".venv").readlink() == made
    (folder / ".venv").unlink()
    (folder / ".venv").symlink_to("/an/older/one")
    policy_arguments(environment, read_state(environment))
    assert (folder / ".venv").readlink() == made
    assert [path.name for path in folder.iterdir()] == [".venv"]


def test_somebody_elses_environment_is_not_overwritten(
    environment: Environment, made: Path
) -> None:
    (environment.checkout / "policies" / ".venv").mkdir()
    with pytest.raises(CliError, match="not the link") as error:
        policy_arguments(environment, read_state(environment))
    assert "mv " in error.value.fix


def test_an_environment_that_was_never_made_costs_nothing_before_the_change(
    environment: Environment, made: Path
) -> None:
    known = configuration(environment)
    assert known["change-over-budget"] == {"usd_per_hour_before": 0}
    assert set(known) >= {"could-not-be-evaluated", "advice", "waived"}


def test_the_cost_before_the_change_is_that_of_the_last_update(
    environment: Environment, made: Path
) -> None:
    platform = {
        "type": "slipway:index:Platform",
        "inputs": {"facts": {"cost": {"usd_per_hour": 12.5}}},
    }
    put_checkpoint(environment, {"resources": [{"type": "a:b:C"}, platform]})
    assert configuration(environment)["change-over-budget"] == {"usd_per_hour_before": 12.5}


def test_an_environment_without_prices_costs_nothing(environment: Environment, made: Path) -> None:
    put_checkpoint(environment, {"resources": [{"type": "slipway:index:Platform", "inputs": {}}]})
    assert configuration(environment)["change-over-budget"] == {"usd_per_hour_before": 0}


@pytest.mark.parametrize(
    ("kind", "installed", "started"),
    [("registry-only", True, 1), ("registry-only", False, 0), ("official", True, 0)],
)
def test_installed_policies_have_a_server_with_the_registry_only_language_host(
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    installed: bool,
    started: int,
) -> None:
    python = environment.checkout / "policies" / ".venv" / "bin" / "python"
    if installed:
        python.parent.mkdir(parents=True)
        python.touch()
    servers = list[Path]()
    monkeypatch.setattr(policy_pack, "known_kind", lambda _: kind)
    monkeypatch.setattr(policy_pack, "start_server", lambda first, *_: servers.append(first))
    policy_pack.start_policy_server(environment)
    assert servers == [python] * started
