"""Which lifecycle an environment has, and what is refused before any is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.environment import Environment, find
from cli.errors import CliError
from cli.lifecycle.fleet.lifecycle import FleetLifecycle
from cli.lifecycle.local.lifecycle import LocalLifecycle
from cli.lifecycle.registry import lifecycle_of
from slipway.config.errors import ConfigError


def put(checkout: Path, stack_file: str, *, built: tuple[str, ...] = ()) -> Environment:
    """The environment `e` with this stack file, in a checkout that builds some targets."""
    targets = checkout / "stacks" / "targets"
    targets.mkdir(parents=True, exist_ok=True)
    for target in built:
        (targets / f"{target}.py").touch()
    (checkout / "Pulumi.e.yaml").write_text(stack_file)
    return find("e")


def test_dev_runs_on_this_machine(checkout: Path) -> None:
    environment = put(checkout, "config: {slipway:target: dev}")
    assert lifecycle_of(environment) == LocalLifecycle(environment=environment)


@pytest.mark.parametrize(
    "settings",
    [
        "slipway:target: aws, slipway:aws: {}, slipway:ssh: {}",
        "slipway:target: metal, slipway:ssh: {}",
    ],
)
def test_every_other_target_that_is_built_is_a_fleet(checkout: Path, settings: str) -> None:
    environment = put(checkout, f"config: {{{settings}}}", built=("aws", "metal"))
    assert lifecycle_of(environment) == FleetLifecycle(environment=environment)


def test_a_target_that_is_not_built_has_no_lifecycle(checkout: Path) -> None:
    environment = put(checkout, "config: {slipway:target: metal}", built=("aws",))
    with pytest.raises(CliError, match='"metal" has no components yet'):
        lifecycle_of(environment)


BROKEN = [
    "config: {",
    "config: {slipway:target: metla}",
    "config: {slipway:models: {}}",
    "config: {}",
    "config: 5",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_without_a_valid_target_is_not_treated_as_one_of_this_machine(
    checkout: Path, text: str
) -> None:
    """Else `down` would say that a fleet is down because nothing of it runs here."""
    environment = put(checkout, text)
    with pytest.raises(ConfigError, match=r"Pulumi\.e\.yaml"):
        lifecycle_of(environment)


@pytest.mark.parametrize("text", BROKEN)
def test_what_runs_here_can_be_ended_whatever_its_file_says(checkout: Path, text: str) -> None:
    environment = put(checkout, text)
    environment.run.mkdir(parents=True)
    assert lifecycle_of(environment) == LocalLifecycle(environment=environment)


def test_a_target_is_not_changed_while_the_environment_still_runs_here(checkout: Path) -> None:
    environment = put(checkout, "config: {slipway:target: metal}", built=("metal",))
    environment.run.mkdir(parents=True)
    with pytest.raises(CliError, match="from before its target became") as refused:
        lifecycle_of(environment)
    assert "slipway down -s e" in refused.value.fix
