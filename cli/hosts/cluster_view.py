"""What both clusters say of their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from cli.clusters.both import Clusters
from cli.hosts.not_passed import not_passed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the clusters answered, each as its API has it; None where it does not answer, and then
    `unreachable` has the reason by cluster."""

    consul_members: Sequence[Mapping[str, Any]] | None
    nomad_servers: Sequence[Mapping[str, Any]] | None
    nomad_nodes: Sequence[Mapping[str, Any]] | None
    # Metadata by host, of those that did not pass the check of their fabric.
    fabrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)


def view_of(both: Clusters) -> ClusterView:
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
        fabrics=ask("nomad", lambda: not_passed(both.nomad)) or {},
        unreachable=unreachable,
    )
