"""Move a host's work to other hosts, and give it no more."""

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
def drain(
    host: Annotated[str, typer.Argument(help="The host's name in the environment's file.")],
    stack: Stack = DEFAULT_STACK,
) -> None:
    """Move a host's work to other hosts, and give it no more.

    The host stays in its clusters, and its agents run on. Ctrl-C ends the waiting, not the drain.
    Neither a restart of the host nor `slipway up` gives it work again: `slipway return` does.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    plan = plan_of(environment)
    with lifecycle.reaching(plan), clusters(plan, lifecycle.credentials) as both:
        work.drain(both.nomad, plan, host)
