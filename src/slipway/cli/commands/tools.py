"""Show each tool with its version, source and path."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from slipway.cli.console import results, write_json
from slipway.cli.environment import find
from slipway.cli.options import DEFAULT_STACK, Json, Stack
from slipway.cli.progress import ToolchainProgress
from slipway.cli.pulumi.plugins import DESCRIPTION, plugin_kind
from toolchain import resolve
from toolchain.pins import tool_pins

app = typer.Typer(add_completion=False)


@app.command()
def tools(
    stack: Stack = DEFAULT_STACK,
    install: Annotated[
        bool, typer.Option("--install", help="Get the tools that are missing first.")
    ] = False,
    json: Json = False,
) -> None:
    """Show each tool with its version, source and path."""
    environment = find(stack)
    if install:
        resolve.tools(tool_pins(), environment.cache, ToolchainProgress())
    states = resolve.report(tool_pins(), environment.cache)
    kind = plugin_kind(environment)
    if json:
        write_json(
            {
                "tools": [{**dataclasses.asdict(s), "path": str(s.path)} for s in states],
                "plugins": kind,
            }
        )
        return
    for state in states:
        # One line each, not a table: a path that is broken over lines cannot be copied.
        where = str(state.path) if state.source else "not here yet (slipway tools --install)"
        results.print(f"{state.name:<17} {state.version:<8} {state.source or '-':<8} {where}")
    results.print(f"Pulumi uses {DESCRIPTION[kind]}")
