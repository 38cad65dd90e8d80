"""Take a snapshot of Consul's and Nomad's states now."""

from __future__ import annotations

import typer

from slipway.cli.console import say
from slipway.cli.environment import find
from slipway.cli.lifecycle.registry import lifecycle_of
from slipway.cli.options import DEFAULT_STACK, Stack
from slipway.cli.planning import plan_of
from slipway.cli.platform.clusters import clusters
from slipway.cli.snapshots.kept import host_of
from slipway.cli.snapshots.taking import take

app = typer.Typer(add_completion=False)


@app.command()
def snapshot(stack: Stack = DEFAULT_STACK) -> None:
    """Take a snapshot of Consul's and Nomad's states now.

    Before a risky change; others are taken at the environment's fixed times. The oldest is deleted
    when there are more than slipway:snapshots.keep.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    plan = plan_of(environment)
    before = {each.name for each in lifecycle.snapshots(plan)}
    with lifecycle.reaching(plan), clusters(plan, lifecycle.credentials) as both:
        take(both.nomad)
    for each in lifecycle.snapshots(plan):
        if each.name not in before:
            say(f"{host_of(plan)} has {each.name}: {sum(each.size_bytes.values())} bytes")
