"""Print exports for plain pulumi, nomad and consul commands."""

from __future__ import annotations

import sys

import typer

from cli.console import say
from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def env(stack: Stack = DEFAULT_STACK) -> None:
    """Print exports for plain pulumi, nomad and consul commands.

    eval "$(slipway env -s dev)" && nomad status && pulumi preview -s dev

    Other machines are out of reach for nomad and consul; `slipway reach` brings them within it.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    sys.stdout.write(lifecycle.exports())
    if lifecycle.hosts is not None:
        say(
            f'these lines are for pulumi; "{environment.name}" runs on other machines: for nomad'
            f" and consul use slipway reach -s {environment.name}"
        )
