"""Keep the platform within reach of other programs: nomad, consul, curl, pulumi."""

from __future__ import annotations

import typer

from cli.environment import find
from cli.lifecycle.local.refusals import is_within_reach
from cli.lifecycle.registry import hosts_of, lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.planning import plan_of

app = typer.Typer(add_completion=False)


@app.command()
def reach(stack: Stack = DEFAULT_STACK) -> None:
    """Keep the platform within reach of other programs: nomad, consul, curl, pulumi.

    Prints exports for another shell, and forwards over SSH until Ctrl-C. Slipway's own commands do
    this by themselves, and share the forwards.
    """
    environment = find(stack)
    hosts = hosts_of(environment, is_within_reach(environment.name))
    hosts.reach(plan_of(environment), lifecycle_of(environment).exports())
