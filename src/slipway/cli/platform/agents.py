"""The agents of this machine's hosts, through the program of services/node that supervises them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from slipway.cli.applied import Applied
from slipway.cli.console import say
from slipway.cli.environment import Environment
from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.cli.machine.leftovers import clear_leftovers
from slipway.plan.platform import PlatformPlan

PROGRAM = "agents.py"


def has_agents(environment: Environment) -> bool:
    """Whether agents were started here and not taken down since.

    The folder alone is not enough: an `up` may have been interrupted before it wrote the file.
    """
    return (environment.run / "supervisor" / "endpoint.json").is_file()


def must_stay(environment: Environment, before: Applied | None, plan: PlatformPlan) -> None:
    """CliError when a plan removes or moves running servers: the state of Consul and Nomad contains
    their addresses, and without a majority of them no leader can be elected."""
    if before is None or not has_agents(environment):
        return
    now = plan.nomad.url
    if now != before.nomad:
        raise CliError(
            f"Pulumi.{environment.name}.yaml: slipway:network would move the servers of a running"
            f" environment from {before.nomad} to {now}",
            fix=f"slipway down -s {environment.name} first, or keep the network as it was",
            exit_code=WRONG_INPUT,
        )
    if len(plan.servers) < len(before.servers):
        raise CliError(
            f"Pulumi.{environment.name}.yaml: slipway:servers would take"
            f" {len(before.servers) - len(plan.servers)} of {len(before.servers)} servers from a"
            " running environment, and the rest could not elect a leader",
            fix=f"slipway down -s {environment.name} first, or keep the number of servers",
            exit_code=WRONG_INPUT,
        )


def start(environment: Environment, applied: Applied | None) -> None:
    """Starts every agent known on disk and waits until each answers. CliError when one does not."""
    _run(environment, applied, "start", fix="read the lines above, then slipway start again")


def stop(environment: Environment, applied: Applied | None) -> None:
    """Ends all agents, tasks and mounts of the environment, and removes what its replicas left on
    the machine. Needs neither Nomad nor Pulumi."""
    _run(environment, applied, "stop", fix="read the lines above, then run the same command again")
    clear_leftovers(environment)


def _run(environment: Environment, applied: Applied | None, action: str, *, fix: str) -> None:
    command = [str(_python(environment, applied)), str(_program(environment, applied)), action]
    with subprocess.Popen(
        command,
        env=environment.child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            say(f"  {line.rstrip()}")
    if process.returncode:
        raise CliError(f"the agents did not {action}", fix=fix)


def _python(environment: Environment, applied: Applied | None) -> Path:
    """The applied plan's interpreter; this one if the cache was emptied meanwhile."""
    if applied is not None:
        applied_python = environment.cache / "envs" / applied.node_environment / "bin" / "python"
        if applied_python.exists():
            return applied_python
    return environment.node_python if environment.node_python.exists() else Path(sys.executable)


def _program(environment: Environment, applied: Applied | None) -> Path:
    """The applied plan's program; the checkout's if the cache was emptied meanwhile."""
    if applied is not None:
        bundle = environment.cache / "bundles" / applied.node_bundle / PROGRAM
        if bundle.is_file():
            return bundle
    return environment.checkout / "services" / "node" / PROGRAM
