"""Show each host: its state in the clusters, its disk, certificate and units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import typer

from cli.clusters.both import clusters
from cli.console import print_tables, write_json
from cli.environment import find
from cli.hosts.cluster_view import view_of
from cli.hosts.document import hosts_document
from cli.lifecycle.protocol import Lifecycle
from cli.lifecycle.registry import lifecycle_of
from cli.machine.ssh_agent import NoAgentError
from cli.options import DEFAULT_STACK, Json, Stack
from cli.planning import plan_of
from cli.progress import telling
from cli.views.hosts_table import hosts_table
from slipway.plan.platform import PlatformPlan

app = typer.Typer(add_completion=False)


@app.command()
def hosts(stack: Stack = DEFAULT_STACK, json: Json = False) -> None:
    """Show each host: its state in the clusters, its disk, certificate and units.

    Asks Consul and Nomad, and every host over SSH if it is a machine of its own. What does not
    answer is shown with the reason, and what is down or has not joined with the command that mends
    it. The exit code is 0 whatever is found.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    plan = plan_of(environment)
    with (
        _within_reach(lifecycle, plan),
        telling(lambda: "asking Consul and Nomad"),
        clusters(plan, lifecycle.credentials) as both,
    ):
        view = view_of(both)
    facts = lifecycle.hosts.facts(plan) if lifecycle.hosts else {}
    document = hosts_document(plan, view, facts, lifecycle.host_fixes)
    if json:
        write_json(document)
    else:
        print_tables(hosts_table(document))


@contextmanager
def _within_reach(lifecycle: Lifecycle, plan: PlatformPlan) -> Iterator[None]:
    """Without the operator's key nothing is opened here, but another terminal may hold the clusters
    within reach (slipway reach); each host is shown with the reason."""
    with ExitStack() as opened:
        with suppress(NoAgentError):
            opened.enter_context(lifecycle.reaching(plan))
        yield
