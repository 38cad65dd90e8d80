"""Bring servers back that have lost all data, from a snapshot."""

from __future__ import annotations

import datetime
from typing import Annotated

import typer

from cli.confirmation import must_agree
from cli.environment import find
from cli.lifecycle.local.refusals import takes_no_snapshots
from cli.lifecycle.registry import hosts_of
from cli.options import DEFAULT_STACK, Stack
from cli.planning import plan_of
from cli.snapshots.kept import chosen
from cli.views.snapshots_table import age

app = typer.Typer(add_completion=False)


@app.command()
def restore(
    stack: Stack = DEFAULT_STACK,
    *,
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Another than the newest: a name of slipway snapshots."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also where servers still have data; what is newer there is lost."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
) -> None:
    """Bring servers back that have lost all data, from a snapshot.

    Sets the servers up as new ones, with the secrets of Pulumi's state, and gives both clusters the
    states of the snapshot. What runs on the other hosts keeps running meanwhile. What the clusters
    learned after the snapshot is lost; `slipway up` applies the files again.
    """
    environment = find(stack)
    hosts = hosts_of(environment, takes_no_snapshots(environment.name))
    one = chosen(hosts.snapshots(plan_of(environment)), snapshot, environment.name)
    if not yes:
        old = age(round((datetime.datetime.now(datetime.UTC) - one.taken).total_seconds()))
        forced = " --force" if force else ""
        must_agree(
            environment,
            f'Give the clusters of "{environment.name}" the state of {one.name} ({old} ago)?',
            f"slipway restore -s {environment.name} --snapshot {one.name}{forced} --yes",
        )
    hosts.restore(one, force=force)
