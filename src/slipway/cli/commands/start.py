"""Bring a stopped environment back, without Pulumi."""

from __future__ import annotations

import typer

from slipway.cli.environment import find
from slipway.cli.lifecycle.registry import lifecycle_of
from slipway.cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def start(stack: Stack = DEFAULT_STACK) -> None:
    """Bring a stopped environment back, without Pulumi.

    Ends when every model answers through the gateway.
    """
    lifecycle_of(find(stack)).start()
