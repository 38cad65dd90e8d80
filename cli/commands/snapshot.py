"""Take a snapshot of Consul's and Nomad's states now."""

from __future__ import annotations

import typer

from cli.clusters.both import clusters
from cli.console import say
from cli.environment import find
from cli.lifecycle.local.refusals import takes_no_snapshots
from cli.lifecycle.registry import hosts_of, lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.planning import plan_of
from cli.snapshots.kept import host_of
from cli.snapshots.taking import take

app = typer.Typer(add_completion=False)


@app.command()
def snapshot(stack: Stack = DEFAULT_STACK) -> None:
    """Take a snapshot of Consul's and Nomad's states now.

    Before a risky change; others are taken at the environment's fixed times. The oldest is deleted
    when there are more than slipway:snapshots.keep.
    """
    environment = find(stack)
    hosts = hosts_of(environment, takes_no_snapshots(environment.name))
    lifecycle, plan = lifecycle_of(environment), plan_of(environment)
    before = {each.name for each in hosts.snapshots(plan)}
    with lifecycle.reaching(plan), clusters(plan, lifecycle.credentials) as both:
        take(both.nomad)
    for each in hosts.snapshots(plan):
        if each.name not in before:
            say(f"{host_of(plan)} has {each.name}: {sum(each.size_bytes.values())} bytes")
