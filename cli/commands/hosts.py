"""Show each host: what the clusters say of it, and what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import typer

from cli.clusters.both import Clusters, clusters
from cli.console import print_tables, write_json
from cli.environment import find
from cli.hosts.document import ClusterView, hosts_document
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
    """Show each host: what the clusters say of it, and what it has.

    Asks Consul and Nomad, and every host over SSH if it is a machine of its own. What does not
    answer is shown with the reason.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    plan = plan_of(environment)
    with (
        _within_reach(lifecycle, plan),
        telling(lambda: "asking Consul and Nomad"),
        clusters(plan, lifecycle.credentials) as both,
    ):
        view = _view(both)
    facts = lifecycle.hosts.facts(plan) if lifecycle.hosts else {}
    document = hosts_document(plan, view, facts)
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


def _view(both: Clusters) -> ClusterView:
    unreachable: dict[str, str] = {}

    def ask(cluster: str, question: Callable[[], Any]) -> Any:
        if cluster in unreachable:
            return None
        try:
            return question()
        except httpx.HTTPError as error:
            unreachable[cluster] = str(error) or type(error).__name__
            return None

    return ClusterView(
        consul_members=ask("consul", both.consul.members),
        nomad_servers=ask("nomad", both.nomad.server_members),
        nomad_nodes=ask("nomad", both.nomad.nodes),
        unreachable=unreachable,
    )
