"""The target of an environment, and whether it can be brought up (stacks/targets/)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.environment import Environment
from cli.errors import WRONG_INPUT, CliError
from slipway.config.document import read_document
from slipway.config.environment import NAMESPACE, TARGETS
from slipway.config.errors import ConfigError
from slipway.config.files import load_environment, stack_file
from stacks.targets import is_built

# Targets whose hosts are processes of this machine. None: the file does not name a target yet.
LOCAL = (None, "dev")
OWNED = "metal"


def target_of(environment: Environment) -> str | None:
    """The target that the stack file names; None if it does not name one.

    ConfigError when the file cannot be read, or names a target that does not exist.
    """
    values = _configuration(environment)
    if values is not None:
        target: str | None = values.get(f"{NAMESPACE}target")
        if target is None or target in TARGETS:
            return target
    return load_environment(environment.checkout, environment.name).settings.target


def can_be_built(environment: Environment) -> bool:
    """Whether the environment can be brought up; mistakes in its file are reported where the whole
    file is read."""
    try:
        target = target_of(environment)
    except ConfigError:
        return True
    return target is None or (
        is_built(target, environment.checkout) and _says_how_hosts_are_reached(environment, target)
    )


def must_be_built(environment: Environment) -> None:
    """CliError (wrong input) for an environment that can only be planned: its target has no
    components yet, or its file does not say how its hosts are reached."""
    if can_be_built(environment):
        return
    source, target = stack_file(environment.name), target_of(environment)
    if target is not None and is_built(target, environment.checkout):
        raise CliError(
            f"{source}: slipway:ssh is missing: it says how the hosts are reached; without it the"
            " environment can only be planned",
            fix="add slipway:ssh: {known_hosts: known_hosts}, and list the machines as"
            " Pulumi.hosts.yaml does",
            exit_code=WRONG_INPUT,
        )
    raise CliError(
        f'{source}: slipway:target: "{target}" has no'
        " components yet, so there is nothing to preview or bring up",
        fix=f"slipway plan -s {environment.name} shows what it needs and costs",
        exit_code=WRONG_INPUT,
    )


def _says_how_hosts_are_reached(environment: Environment, target: str) -> bool:
    """Machines that people own are reached over SSH; other targets' are not."""
    return target != OWNED or f"{NAMESPACE}ssh" in (_configuration(environment) or {})


def _configuration(environment: Environment) -> Mapping[str, Any] | None:
    """The values of the stack file as it was written; None where it has no valid `config`."""
    source = stack_file(environment.name)
    values = read_document(environment.checkout / source, source=source).values.get("config")
    return values if isinstance(values, Mapping) else None
