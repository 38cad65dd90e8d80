"""The agents of this machine's hosts, through the program of services/host that supervises them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli.applied import Applied, AppliedNode
from cli.console import say
from cli.environment import Environment
from cli.errors import WRONG_INPUT, CliError
from cli.machine.leftovers import clear_leftovers
from slipway.plan.platform import Node, PlatformPlan
from slipway.planner.supply.addresses import slot_of

PROGRAM = "agents.py"


def has_agents(environment: Environment) -> bool:
    """Whether agents were started here and not taken down since.

    The folder alone is not enough: an `up` may have been interrupted before it wrote the file.
    """
    return (environment.run / "supervisor" / "endpoint.json").is_file()


def must_stay(environment: Environment, before: Applied | None, plan: PlatformPlan) -> None:
    """CliError when a plan removes or moves running servers, gives them TLS, or starts a node at
    the address of another one.

    The state of Consul and Nomad contains the servers' addresses, and without a majority of them no
    leader can be elected. Pulumi creates new nodes before it deletes old ones.
    """
    if before is None or not has_agents(environment):
        return
    if before.nomad.startswith("http:"):
        raise CliError(
            f'"{environment.name}" was brought up by an earlier version, whose Consul and Nomad'
            " speak without TLS; a running cluster cannot change that",
            fix=f"slipway down -s {environment.name}, then slipway up -s {environment.name}",
            exit_code=WRONG_INPUT,
        )
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
    there = {node.address: node for node in before.nodes}
    for node in (node for pool in plan.pools for node in pool.hosts):
        old = there.get(node.address)
        if old is not None and (old.pool, old.name) != (node.pool, node.name):
            raise _taken(environment.name, node, old, slot_of(node.address, plan.cidr))


def _taken(environment: str, new: Node, old: AppliedNode, slot: int) -> CliError:
    return CliError(
        f"Pulumi.{environment}.yaml: slipway:pools.{new.pool} would start {new.name} at"
        f" {new.address} (slot {slot}) while {old.name} of pools.{old.pool} still runs there:"
        " new nodes start before old ones are removed",
        fix=f"give pools.{new.pool} another slot; or remove pools.{old.pool} first with one"
        f" slipway up -s {environment}, then add pools.{new.pool}",
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
    return environment.checkout / "services" / "host" / PROGRAM
