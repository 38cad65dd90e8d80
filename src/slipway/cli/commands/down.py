"""End the environment and remove its state."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from slipway.cli.environment import Environment, find
from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.cli.lifecycle.registry import lifecycle_of
from slipway.cli.options import DEFAULT_STACK, Stack

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
    _confirm(environment, sure=yes)
    lifecycle.down()


def _confirm(environment: Environment, *, sure: bool) -> None:
    if sure:
        return
    if not sys.stdin.isatty():
        raise CliError(
            f'"{environment.name}" needs confirmation, but stdin is not a terminal',
            fix=f"slipway down -s {environment.name} --yes",
            exit_code=WRONG_INPUT,
        )
    question = f'End everything in "{environment.name}" and remove its state?'
    if not typer.confirm(question, err=True):
        raise typer.Exit(0)
