"""Show the snapshots of Consul's and Nomad's states."""

from __future__ import annotations

import datetime

import typer

from cli.console import print_tables, write_json
from cli.environment import find
from cli.lifecycle.local.refusals import takes_no_snapshots
from cli.lifecycle.registry import hosts_of
from cli.options import DEFAULT_STACK, Json, Stack
from cli.planning import plan_of
from cli.snapshots.kept import document
from cli.views.snapshots_table import snapshots_table

app = typer.Typer(add_completion=False)


@app.command()
def snapshots(stack: Stack = DEFAULT_STACK, json: Json = False) -> None:
    """Show the snapshots of Consul's and Nomad's states.

    Each is one file of Consul and one of Nomad, on the host that takes them, newest first. They
    hold every secret of both clusters.
    """
    environment = find(stack)
    hosts = hosts_of(environment, takes_no_snapshots(environment.name))
    plan = plan_of(environment)
    kept = hosts.snapshots(plan)
    shown = document(plan, kept, datetime.datetime.now(datetime.UTC))
    if json:
        write_json(shown)
    else:
        print_tables(snapshots_table(shown))
