"""Remove a host that is gone for good from the state and the clusters."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.environment import find
from cli.lifecycle.local.refusals import is_this_machine
from cli.lifecycle.registry import hosts_of
from cli.options import DEFAULT_STACK, Stack
from cli.planning import plan_of

app = typer.Typer(add_completion=False)


@app.command()
def forget(
    host: Annotated[str, typer.Argument(help="The host's name in the state.")],
    stack: Stack = DEFAULT_STACK,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="It is gone, although the file still names it.")
    ] = False,
) -> None:
    """Remove a host that is gone for good from the state and the clusters.

    Only a host that nobody hears any more: one that answers is removed by `slipway up`, which
    drains it first. A server is forgotten only if the others can still elect a leader.
    """
    environment = find(stack)
    instead = ("slipway start", "brings back what has died")
    hosts = hosts_of(environment, is_this_machine(environment.name, host, *instead))
    hosts.forget(plan_of(environment), host, sure=yes)
