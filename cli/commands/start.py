"""Bring a stopped environment back, without Pulumi."""

from __future__ import annotations

import typer

from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def start(stack: Stack = DEFAULT_STACK) -> None:
    """Bring a stopped environment back, without Pulumi.

    Ends when every model answers through the gateway.
    """
    lifecycle_of(find(stack)).start()
