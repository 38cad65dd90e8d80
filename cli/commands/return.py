"""Let a drained host take work again, or trust its repaired devices."""

# ruff: noqa: N999 - modules have the names of their commands

from __future__ import annotations

from typing import Annotated

import typer

from cli.clusters.both import clusters
from cli.environment import find
from cli.hosts import work
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.planning import plan_of

app = typer.Typer(add_completion=False)


@app.command()
def return_(
    host: Annotated[str, typer.Argument(help="The host's name in the environment's file.")],
    stack: Stack = DEFAULT_STACK,
) -> None:
    """Let a drained host take work again, or trust its repaired devices.

    What was moved away stays where it is; new replicas may be placed on the host. Devices whose
    fault is still there get no work. A drained host with such devices is returned twice.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    plan = plan_of(environment)
    with lifecycle.reaching(plan), clusters(plan, lifecycle.credentials) as both:
        was_drained = work.give_work(both.nomad, plan, host)
        if lifecycle.hosts is not None and not was_drained:
            lifecycle.hosts.look_at_devices_again(plan, host)
