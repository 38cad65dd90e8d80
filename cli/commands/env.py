"""Print exports for plain pulumi commands."""

from __future__ import annotations

import sys

import typer

from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def env(stack: Stack = DEFAULT_STACK) -> None:
    """Print exports for plain pulumi commands.

    eval "$(slipway env -s dev)" && pulumi preview -s dev
    """
    sys.stdout.write(lifecycle_of(find(stack)).exports())
