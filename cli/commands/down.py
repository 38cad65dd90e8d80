"""End the environment and remove its state."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.confirmation import must_agree
from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack

app = typer.Typer(add_completion=False)


@app.command()
def down(
    stack: Stack = DEFAULT_STACK,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
) -> None:
    """End the environment and remove its state.

    Processes on this machine are ended even if parts of the platform are dead already; a fleet's
    resources are destroyed by Pulumi, and what could not be destroyed stays in the state.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    if not yes:
        question = f'End everything in "{environment.name}" and remove its state?'
        must_agree(environment, question, f"slipway down -s {environment.name} --yes")
    lifecycle.down()
