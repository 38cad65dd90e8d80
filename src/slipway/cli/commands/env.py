"""Print exports for plain pulumi commands."""

from __future__ import annotations

import sys

import typer

from slipway.cli.environment import exports, find
from slipway.cli.options import DEFAULT_STACK, Stack
from slipway.cli.pulumi.plugins import plugin_kind, plugin_variables

app = typer.Typer(add_completion=False)


@app.command()
def env(stack: Stack = DEFAULT_STACK) -> None:
    """Print exports for plain pulumi commands.

    eval "$(slipway env -s dev)" && pulumi preview -s dev
    """
    environment = find(stack)
    kind = plugin_kind(environment)
    sys.stdout.write(exports({**environment.variables(), **plugin_variables(kind)}))
