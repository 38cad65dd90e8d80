"""The operator's way to a fleet's hosts and clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cli.environment import Environment
from cli.errors import WRONG_INPUT, CliError
from cli.machine.ssh_agent import agent_for
from cli.reach import lease
from slipway.plan.platform import PlatformPlan, SshPlan


@contextmanager
def reaching(
    environment: Environment, plan: PlatformPlan, leaving: Sequence[str] = ()
) -> Iterator[Mapping[str, str]]:
    """As `reaching` in protocol.Lifecycle. `leaving` are addresses of hosts that this update
    removes."""
    with (
        agent_for(plan.ssh) as agent,
        lease.reaching(environment, plan, agent, leaving) as variables,
    ):
        yield {**agent, **variables}


def ssh_of(environment: Environment, plan: PlatformPlan) -> SshPlan:
    """How the plan's hosts are reached over SSH. CliError if the files do not say it."""
    if plan.ssh is None:
        raise CliError(
            f'the hosts of "{environment.name}" are not reached over SSH',
            fix="slipway hosts shows what the clusters know of them",
            exit_code=WRONG_INPUT,
        )
    return plan.ssh
