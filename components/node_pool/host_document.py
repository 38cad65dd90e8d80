"""The document of a host's agents: what services/node applies (schemas/node.schema.json).

Paths of the machine are placeholders that the host fills in: @run@, @cache@, @scratch@, and
@agent@, the agent's own folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.plan.platform import NodeAgentPlan

SCHEMA_VERSION = 1
DATA_DIRECTORY = "@agent@/data"
CONFIGURATION_FILE = "@agent@/config.json"
SECRETS_FILE = "@agent@/secrets.json"

# The order in which agents start; each stage answers before the next one starts. Nomad after
# Consul: a Nomad client that finds no Consul takes no job with a service.
CONSUL_SERVER, CONSUL_CLIENT, NOMAD_SERVER, NOMAD_CLIENT = 1, 2, 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDocument:
    """One agent. `configuration` is its whole configuration file except for the secrets."""

    name: str  # "consul"
    stage: int
    command: tuple[str, ...]
    configuration: Mapping[str, Any]
    ready_url: str  # answers 200 without a token when the agent can be used
    ready_timeout_s: int = 120
    stop_timeout_s: int = 30

    def render(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "stage": self.stage,
            "command": list(self.command),
            "configuration": dict(self.configuration),
            "ready_url": self.ready_url,
            "ready_timeout_s": self.ready_timeout_s,
            "stop_timeout_s": self.stop_timeout_s,
        }


def host_document(
    host: str,
    agents: Sequence[AgentDocument],
    node_agent: NodeAgentPlan,
    departure: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of `agents` on one host. `departure`: whom to tell when the host is removed."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "host": host,
        "supervisor": {
            "address": node_agent.supervisor_address,
            "port": node_agent.supervisor_port,
        },
        "agents": [agent.render() for agent in agents],
    }
    if departure is not None:
        document["departure"] = dict(departure)
    return document


def secrets_document(agents: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Agent name -> the secret part of its configuration; goes through standard input only."""
    return {"schema_version": SCHEMA_VERSION, "agents": dict(agents)}


def binary(tool: str, version: str) -> str:
    """The stable path of a tool in the cache."""
    return f"@cache@/tools/bin/{tool}-{version}/{tool}"
