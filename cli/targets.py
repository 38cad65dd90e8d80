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
# What an environment of a target needs beside what every plan needs: the section, what it says, and
# the fix.
_REACHED = "how the hosts are reached"
NEEDED = {
    "metal": (
        (
            "ssh",
            _REACHED,
            "add slipway:ssh: {known_hosts: known_hosts}, and list the machines as"
            " Pulumi.hosts.yaml does",
        ),
    ),
    "aws": (
        (
            "aws",
            "where the machines are, and of what",
            "add slipway:aws as docs/operations/aws.md shows",
        ),
        ("ssh", _REACHED, "add slipway:ssh: {known_hosts: known_hosts}"),
    ),
}


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
        is_built(target, environment.checkout) and not any(_missing(environment, target))
    )


def must_be_built(environment: Environment) -> None:
    """CliError (wrong input) for an environment that can only be planned: its target has no
    components yet, or its file does not say how its hosts are reached."""
    if can_be_built(environment):
        return
    source, target = stack_file(environment.name), target_of(environment)
    if target is not None and is_built(target, environment.checkout):
        key, why, fix = _missing(environment, target)
        raise CliError(
            f"{source}: slipway:{key} is missing: it says {why}; without it the environment can"
            " only be planned",
            fix=fix,
            exit_code=WRONG_INPUT,
        )
    raise CliError(
        f'{source}: slipway:target: "{target}" has no'
        " components yet, so there is nothing to preview or bring up",
        fix=f"slipway plan -s {environment.name} shows what it needs and costs",
        exit_code=WRONG_INPUT,
    )


def _missing(environment: Environment, target: str) -> tuple[str, str, str]:
    """The first section without which hosts cannot be built or reached: its key, what it says, and
    the fix. Empty texts where none is missing."""
    written = _configuration(environment) or {}
    found = (each for each in NEEDED.get(target, ()) if f"{NAMESPACE}{each[0]}" not in written)
    return next(found, ("", "", ""))


def _configuration(environment: Environment) -> Mapping[str, Any] | None:
    """The values of the stack file as it was written; None where it has no valid `config`."""
    source = stack_file(environment.name)
    values = read_document(environment.checkout / source, source=source).values.get("config")
    return values if isinstance(values, Mapping) else None
