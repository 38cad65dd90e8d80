"""Show nodes, jobs, replicas, endpoints and metrics targets."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live

from cli.clusters.snapshot import take_snapshot
from cli.console import print_tables, results, write_json
from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack
from cli.views.status_table import status_table

app = typer.Typer(add_completion=False)
WATCH_INTERVAL_S = 2.0


@app.command()
def status(
    stack: Stack = DEFAULT_STACK,
    json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update it until Ctrl-C.")] = False,
) -> None:
    """Show nodes, jobs, replicas, endpoints and metrics targets.

    Hosts that are down or have not joined are named with the command that mends them. The exit code
    is 0 whatever is found.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)

    def snapshot() -> dict[str, Any]:
        return take_snapshot(environment, applied, lifecycle.host_fixes)

    def table() -> RenderableType:
        return status_table(snapshot(), lifecycle.when_silent)

    with lifecycle.asked() as applied:
        if json:
            write_json(snapshot())
            return
        if not watch:
            print_tables(table())
            return
        with Live(table(), console=results) as live:
            while True:
                time.sleep(WATCH_INTERVAL_S)
                live.update(table())
