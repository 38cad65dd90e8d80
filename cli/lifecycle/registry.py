"""Finds the lifecycle of an environment, and the operations on its hosts."""

# ruff: noqa: PLC0415 - each environment loads only its own lifecycle

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.environment import Environment
from cli.errors import WRONG_INPUT, CliError
from cli.targets import LOCAL, must_be_built, target_of
from slipway.config.errors import ConfigError
from slipway.config.files import load_environment

if TYPE_CHECKING:
    from cli.lifecycle.fleet.hosts import HostOperations
    from cli.lifecycle.protocol import Lifecycle


def lifecycle_of(environment: Environment) -> Lifecycle:
    """CliError if the environment's processes run here and its target has changed; ConfigError if
    nothing runs here and its file does not name the target."""
    runs_here = environment.run.is_dir()
    try:
        target = target_of(environment)
    except ConfigError:
        if not runs_here:
            raise
        target = None
    if target is None and not runs_here:
        load_environment(environment.checkout, environment.name)  # refuses a file without a target
    if target in LOCAL:
        from cli.lifecycle.local.lifecycle import LocalLifecycle

        return LocalLifecycle(environment=environment)
    if runs_here:
        raise CliError(
            f'"{environment.name}" still has processes or state on this machine, from before its'
            f' target became "{target}"',
            fix=f"set slipway:target to dev, run slipway down -s {environment.name}, then set it to"
            f" {target} again",
            exit_code=WRONG_INPUT,
        )
    must_be_built(environment)
    from cli.lifecycle.fleet.lifecycle import FleetLifecycle

    return FleetLifecycle(environment=environment)


def hosts_of(environment: Environment, refusal: CliError) -> HostOperations:
    """The operations on hosts that are machines; raises the refusal where they are processes of
    this one."""
    if (hosts := lifecycle_of(environment).hosts) is None:
        raise refusal
    return hosts
