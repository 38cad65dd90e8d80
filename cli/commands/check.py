"""Check the fabric of a host, or measure it between two."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.clusters.both import clusters
from cli.console import print_tables, write_json
from cli.environment import find
from cli.errors import FAILED
from cli.hosts.fabric import check as check_hosts
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack
from cli.planning import plan_of
from cli.views.check_table import check_table

app = typer.Typer(add_completion=False)


@app.command()
def check(
    host: Annotated[str, typer.Argument(help="The host's name in the environment's file.")],
    peer: Annotated[
        str | None, typer.Argument(help="Another host of its pool, to measure with.")
    ] = None,
    stack: Stack = DEFAULT_STACK,
    json: Json = False,
) -> None:
    """Check the fabric of a host, or measure it between two.

    Links, settings and limits of the host are compared with the plan, and with two hosts bandwidth
    and latency between them as well. A host that fails takes no member of a group until a check
    passes. Hosts that hold a member are not measured. The exit code is 1 if a host takes none.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    plan = plan_of(environment)
    with lifecycle.reaching(plan), clusters(plan, lifecycle.credentials) as both:
        document = check_hosts(both.nomad, plan, [host, *([peer] if peer else [])])
    if json:
        write_json(document)
    else:
        print_tables(check_table(document))
    if not all(each["takes_members"] for each in document["hosts"]):
        raise typer.Exit(FAILED)
