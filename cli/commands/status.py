"""Show nodes, jobs, replicas, endpoints and metrics targets."""

from __future__ import annotations

import time
from typing import Annotated, Any

import httpx
import typer
from rich.console import RenderableType
from rich.live import Live

from cli.applied import Applied
from cli.clusters import gateway
from cli.clusters.snapshot import take_snapshot
from cli.console import print_tables, results, write_json
from cli.environment import find
from cli.errors import WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack
from cli.views.placement_table import placement_table, with_envoys_view
from cli.views.status_table import status_table

app = typer.Typer(add_completion=False)
WATCH_INTERVAL_S = 2.0


@app.command()
def status(
    stack: Stack = DEFAULT_STACK,
    json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update it until Ctrl-C.")] = False,
    why: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Show how the gateway chooses a replica of a model."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Argument(help="With --why: the session or user whose replica to show."),
    ] = None,
) -> None:
    """Show nodes, jobs, replicas, endpoints and metrics targets.

    Hosts that are down or have not joined are named with the command that mends them. The exit code
    is 0 whatever is found.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    if why is not None:
        with lifecycle.asked() as applied:
            _show_placement(applied, why, key, as_json=json)
        return
    if key is not None:
        raise CliError(
            f"{key}: a key needs a model",
            fix=f"slipway status --why MODEL {key}",
            exit_code=WRONG_INPUT,
        )

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


def _show_placement(applied: Applied, model: str, key: str | None, *, as_json: bool) -> None:
    try:
        document = gateway.placement(applied, model, key)
        endpoints = gateway.endpoints(applied)
    except httpx.HTTPError as error:
        raise CliError(
            f"the gateway does not answer: {error or type(error).__name__}",
            fix="slipway status says what runs",
        ) from error
    shown = with_envoys_view(document, endpoints)
    if as_json:
        write_json(shown)
    else:
        print_tables(placement_table(shown, key))
