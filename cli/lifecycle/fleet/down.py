"""`down` of a fleet: destroy its resources, then forget the empty stack."""

from __future__ import annotations

from collections.abc import Sequence

from cli.console import say
from cli.environment import Environment
from cli.errors import CliError
from cli.lifecycle.fleet import backend
from cli.lifecycle.fleet.prepared import log_of, prepared
from cli.planning import plan_if_valid, plan_of
from cli.progress import Phases
from cli.pulumi.cloud_plugins import must_have_plugins


def down(environment: Environment) -> None:
    """Works despite mistakes in the files, unless hosts must be reached over SSH."""
    must_have_plugins(environment)
    phases, plan = Phases(f"down {environment.name}"), plan_if_valid(environment)
    with prepared(environment, phases, plan) as (pulumi, _):
        with phases.phase("stack", "in your Pulumi backend"):
            state = backend.stack_state(pulumi)
        if state is None:
            say(f'your Pulumi backend has no stack "{environment.name}"')
            return
        if state.protected:
            raise _is_protected(environment.name, state.protected)
        if plan is None and state.needs_ssh:
            say("down needs the files, because they say how the hosts are reached")
            plan_of(environment)  # raises what is wrong in them
        with phases.phase("pulumi", "destroying the resources"):
            pulumi.destroy(log=log_of(environment))
        with phases.phase("state", "removing the empty stack"):
            backend.remove_empty_stack(pulumi)
    say(f'"{environment.name}" is down; Pulumi.{environment.name}.yaml stays')


def _is_protected(environment: str, urns: Sequence[str]) -> CliError:
    listed = "".join(f"\n    {urn}" for urn in urns)
    return CliError(
        f'"{environment}" has protected resources; nothing was destroyed:{listed}',
        fix=f"to destroy them: slipway unprotect -s {environment}, then"
        f" slipway down -s {environment}",
    )
