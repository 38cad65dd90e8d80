"""The document of a host's agents, which services/host applies (schemas/node.schema.json).

Paths on the machine are placeholders that the host fills in: @run@, @cache@, @scratch@, and
@agent@, the agent's own folder. In the secrets, @token@ is the token of Consul for which
the agent has logged in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 3
SECRETS_VERSION = 1
DATA_DIRECTORY = "@agent@/data"
CONFIGURATION_FILE = "@agent@/config.json"
SECRETS_FILE = "@agent@/secrets.json"
CERTIFICATE_FOLDER = "@agent@/certificate"
CONSUL_TOKEN = "@token@"  # noqa: S105  (of an agent that logs in)
AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = (
    f"{CERTIFICATE_FOLDER}/{name}" for name in ("ca.pem", "cert.pem", "key.pem")
)

# The order in which agents start; each stage answers before the next one starts. Nomad starts after
# Consul, because a Nomad client without Consul does not accept jobs with a service.
CONSUL_SERVER, CONSUL_CLIENT, NOMAD_SERVER, WORKLOAD_KEYS, NOMAD_CLIENT = 1, 2, 3, 4, 5

# How an agent takes up a renewed certificate.
RELOAD, RESTART = "reload", "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDocument:
    """One agent. `configuration` is its configuration file without the secrets."""

    name: str  # "consul"
    stage: int
    command: tuple[str, ...]
    configuration: Mapping[str, Any]
    ready_url: str  # answers 200 without a token once the agent is usable
    renewal: str  # RELOAD or RESTART
    ready_timeout_s: int = 120
    stop_timeout_s: int = 30
    leader_url: str = ""  # of one of several servers: which of them leads
    starts_after: Mapping[str, Any] | None = None  # conditions in the cluster that it waits for

    def render(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "stage": self.stage,
            "command": list(self.command),
            "configuration": dict(self.configuration),
            "ready_url": self.ready_url,
            "ready_timeout_s": self.ready_timeout_s,
            "renewal": self.renewal,
            "stop_timeout_s": self.stop_timeout_s,
        }
        if self.leader_url:
            document["leader_url"] = self.leader_url
        if self.starts_after is not None:
            document["starts_after"] = dict(self.starts_after)
        return document


def host_document(
    host: str,
    agents: Sequence[AgentDocument],
    supervision: Mapping[str, Any],
    *,
    departure: Mapping[str, Any] | None = None,
    joining: Mapping[str, Any] | None = None,
    firewall: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of `agents` on one host. `supervision` comes from hosts/supervision.py;
    `departure` names the clusters to leave when the host is removed, `joining` (of a `Joining`)
    how its agents log in, and `firewall` (of firewall.py) who reaches the ports of members."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "host": host,
        **supervision,
        "agents": [agent.render() for agent in agents],
    }
    if departure is not None:
        document["departure"] = dict(departure)
    if joining is not None:
        document["joining"] = dict(joining)
    if firewall is not None:
        document["firewall"] = dict(firewall)
    return document


def secrets_document(
    agents: Mapping[str, Mapping[str, Any]], certificate: Mapping[str, str]
) -> dict[str, Any]:
    """Agent name -> the secret part of its configuration, and the files of the host's certificate.
    Passed only through standard input."""
    return {
        "schema_version": SECRETS_VERSION,
        "agents": dict(agents),
        "certificate": dict(certificate),
    }


def binary(tool: str, version: str) -> str:
    """The stable path of a tool in the cache."""
    return f"@cache@/tools/bin/{tool}-{version}/{tool}"
