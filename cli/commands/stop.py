"""End all processes of the environment; its state stays."""

from __future__ import annotations

import typer

from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def stop(stack: Stack = DEFAULT_STACK) -> None:
    """End all processes of the environment; its state stays."""
    lifecycle_of(find(stack)).stop()
