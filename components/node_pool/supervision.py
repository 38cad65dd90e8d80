"""The supervision of a host's agents."""

from __future__ import annotations

from typing import Any, Protocol

from slipway.plan.platform import NodeAgentPlan


class Supervision(Protocol):
    """The part of a host's document that names the supervisor of its agents."""

    def section(self, node_agent: NodeAgentPlan) -> dict[str, Any]: ...


class Supervisord:
    """One supervisord for the agents of all hosts on this machine."""

    def section(self, node_agent: NodeAgentPlan) -> dict[str, Any]:
        supervisor = node_agent.supervisor
        return {"supervisor": {"address": supervisor.host, "port": supervisor.port}}
