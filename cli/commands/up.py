"""Bring the environment to the state in its files, and wait until every replica serves."""

from __future__ import annotations

import typer

from cli.console import write_json
from cli.environment import find
from cli.errors import FAILED
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack
from cli.pulumi.plugins import fork_plugins_and_program

app = typer.Typer(add_completion=False)


@app.command()
def up(stack: Stack = DEFAULT_STACK, json: Json = False) -> None:
    """Bring the environment to the state in its files, and wait until every replica serves.

    Where the gateway is on this machine, every model is then asked a question over each of its
    protocols. Elsewhere nothing is asked from here: `pulumi up` has waited for every replica.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    fork_plugins_and_program(environment)
    report = lifecycle.up()
    if json:
        write_json(report.document, indent=None)
    if not report.ready:
        raise typer.Exit(FAILED)
