"""How a target reaches its hosts, supervises their agents, and lets them join the clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.hosts.program import Hosts
from components.hosts.supervision import Supervision
from components.joining.protocol import Joining

if TYPE_CHECKING:  # which knows the components of hosts
    from components.node_pool.elastic import ElasticPools


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRealisation:
    programs: Hosts
    supervision: Supervision
    joining: Joining
    # The share of a pool's hosts, at least one, whose agents change at the same time. The others
    # follow once these answer again; after a failure none does.
    changed_at_once: float
    elastic: ElasticPools | None = None  # None where every host is known
