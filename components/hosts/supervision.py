"""The supervision of a host's agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from components.hosts.document import (
    CONSUL_CLIENT,
    CONSUL_SERVER,
    NOMAD_CLIENT,
    NOMAD_SERVER,
    WORKLOAD_KEYS,
    AgentDocument,
)
from slipway.plan.platform import NodeAgentPlan

OPEN_FILES = 65536  # Envoy and the engines inherit it from the Nomad client
CONSUL_USER, NOMAD_USER, KEYS_USER = "slipway-consul", "slipway-nomad", "slipway-keys"
SYSTEM_PYTHON = "/usr/bin/python3"  # of a host
# The kernel lets a GPU's network card read only memory that is locked.
LOCKED_MEMORY = "infinity"


class Supervision(Protocol):
    """The part of a host's document that names the supervisor of its agents."""

    def section(
        self, node_agent: NodeAgentPlan, agents: Sequence[AgentDocument]
    ) -> dict[str, Any]: ...

    def python(self, node_agent: NodeAgentPlan) -> str:
        """The interpreter of services/host's programs on a host."""


class Supervisord:
    """One supervisord for the agents of all hosts on this machine."""

    def section(
        self,
        node_agent: NodeAgentPlan,
        agents: Sequence[AgentDocument],  # noqa: ARG002  (it treats all alike)
    ) -> dict[str, Any]:
        supervisor = node_agent.supervisor
        return {"supervisor": {"address": supervisor.host, "port": supervisor.port}}

    def python(self, node_agent: NodeAgentPlan) -> str:
        return f"@cache@/envs/{node_agent.environment}/bin/python"


class Systemd:
    """A unit per agent: the Nomad client as root, every other agent as a user of its own."""

    def section(
        self,
        node_agent: NodeAgentPlan,  # noqa: ARG002  (hosts have systemd already)
        agents: Sequence[AgentDocument],
    ) -> dict[str, Any]:
        units = {agent.name: _unit(agent.stage) for agent in agents}
        return {"supervisor": {"kind": "systemd", "agents": units}}

    def python(self, node_agent: NodeAgentPlan) -> str:  # noqa: ARG002
        return SYSTEM_PYTHON


def _unit(stage: int) -> dict[str, Any]:
    """The settings of the unit of an agent, by its stage (schemas/node.schema.json)."""
    files = {"open_files": OPEN_FILES}
    units: dict[int, dict[str, Any]] = {
        CONSUL_SERVER: {"user": CONSUL_USER, "limits": files},
        CONSUL_CLIENT: {"user": CONSUL_USER, "limits": files},
        NOMAD_SERVER: {"user": NOMAD_USER, "after": ["consul"], "limits": files},
        WORKLOAD_KEYS: {"user": KEYS_USER, "after": ["nomad"], "limits": files},
        NOMAD_CLIENT: {
            "user": "root",
            "after": ["consul"],
            "runs_tasks": True,
            "limits": {**files, "locked_memory": LOCKED_MEMORY},
        },
    }
    return units[stage]
