"""The target of an environment, and whether it can be brought up (stacks/targets/)."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.cli.environment import Environment
from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.config.document import read_document
from slipway.config.environment import NAMESPACE, TARGETS, EnvironmentSettings, FleetSettings
from slipway.config.errors import ConfigError
from slipway.config.inputs import load_environment, stack_file
from stacks.targets import is_built

# Targets whose hosts are processes of this machine. None: the file does not name a target yet.
LOCAL = (None, "dev")


def target_of(environment: Environment) -> str | None:
    """The target that the stack file names; None if it does not name one.

    ConfigError when the file cannot be read, or names a target that does not exist.
    """
    source = stack_file(environment.name)
    values = read_document(environment.checkout / source, source=source).values.get("config")
    if isinstance(values, Mapping):
        target: str | None = values.get(f"{NAMESPACE}target")
        if target is None or target in TARGETS:
            return target
    return load_environment(environment.checkout, environment.name).settings.target


def has_components(environment: Environment) -> bool:
    """Whether the environment can be brought up; mistakes in its file are reported where the whole
    file is read."""
    try:
        target = target_of(environment)
    except ConfigError:
        return True
    return target is None or is_built(target, environment.checkout)


def only_counts_its_hosts(settings: EnvironmentSettings) -> bool:
    """Whether the environment can only be planned, because its file does not say how machines that
    people own are reached."""
    return isinstance(settings, FleetSettings) and settings.target == "metal" and not settings.ssh


def must_have_components(environment: Environment) -> None:
    """CliError (wrong input) for a target that can be planned but not built yet."""
    if has_components(environment):
        return
    raise CliError(
        f'{stack_file(environment.name)}: slipway:target: "{target_of(environment)}" has no'
        " components yet, so there is nothing to preview or bring up",
        fix=f"slipway plan -s {environment.name} shows what it needs and costs",
        exit_code=WRONG_INPUT,
    )
