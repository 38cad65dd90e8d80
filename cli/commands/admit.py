"""Set up a host again that was reinstalled, or whose credentials have ended."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.environment import find
from cli.errors import FAILED
from cli.lifecycle.local.refusals import is_this_machine
from cli.lifecycle.registry import hosts_of
from cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def admit(
    host: Annotated[str, typer.Argument(help="Its name in the environment's file.")],
    stack: Stack = DEFAULT_STACK,
) -> None:
    """Set up a host again that was reinstalled, or whose credentials have ended.

    This is `up`, which takes the host for a new one: it gets its tools and, unless it has joined
    already, new credentials. Credentials end when a host was off for longer than a day.
    """
    environment = find(stack)
    instead = ("slipway up", "brings it to the state in its files")
    hosts = hosts_of(environment, is_this_machine(environment.name, host, *instead))
    if not hosts.admit(host).ready:
        raise typer.Exit(FAILED)
