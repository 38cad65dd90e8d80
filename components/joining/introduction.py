"""Hosts that are introduced: each joins with a token that Nomad signs for this one node.

The operator's admission (services/operator/admit.py) brings the token to the host. There the agents
log in to Consul with it, and the Nomad client introduces itself; then it is deleted. No document
lists the hosts, so one that is added or removed changes nothing of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from components.consul import agent_config as consul
from components.consul.acl import CLIENT_POLICY, LogIn
from components.hosts.delivery import run_folder, scratch_folder, way_to
from components.hosts.document import CONSUL_TOKEN
from components.hosts.ssh import reachable
from components.joining.tokens import HostTokens
from components.nomad import agent_config as nomad
from slipway.plan.platform import Node, PlatformPlan

ADMISSION_SCHEMA_VERSION = 1
# The start of a host's agents may take five minutes. Nomad signs for half an hour at most.
INTRODUCTION_TTL_S = 900

LOG_INS = (
    LogIn(
        auth_method="consul-agents",
        agent=consul.NAME,
        what="Consul agents of introduced hosts",
        service=consul.SERVICE,
    ),
    LogIn(
        auth_method="nomad-clients",
        agent=nomad.NAME,
        what="Nomad clients of introduced hosts",
        policy=CLIENT_POLICY,
    ),
)


class Introduction:
    """Servers have tokens that are created before them; a node's agents log in."""

    log_ins = LOG_INS
    nomad_server: Mapping[str, Any] = MappingProxyType(
        {"client_introduction": {"enforcement": "strict"}}
    )

    def __init__(self, plan: PlatformPlan) -> None:
        self._ssh = reachable(plan)
        self._of_servers = HostTokens()
        self._servers = {server.name for server in plan.servers}

    def tokens(self, plan: PlatformPlan) -> list[dict[str, Any]]:
        return self._of_servers.tokens(_without_nodes(plan))

    def token_secrets(self, plan: PlatformPlan, seed: str) -> dict[str, str]:
        return self._of_servers.token_secrets(_without_nodes(plan), seed)

    def consul_token(self, host: str, seed: str) -> str:
        if host in self._servers:
            return self._of_servers.consul_token(host, seed)
        return CONSUL_TOKEN

    def nomad_token(self, host: str, seed: str) -> str:
        if host in self._servers:
            return self._of_servers.nomad_token(host, seed)
        return CONSUL_TOKEN

    def joining(self, plan: PlatformPlan) -> dict[str, Any]:
        """Part of schemas/node.schema.json"""
        return {
            "consul": [server.url for server in plan.on_servers(plan.consul)],
            "auth_methods": {log_in.agent: log_in.auth_method for log_in in self.log_ins},
        }

    def admission(self, plan: PlatformPlan, node: Node) -> dict[str, Any]:
        """schemas/admission.schema.json"""
        return {
            "schema_version": ADMISSION_SCHEMA_VERSION,
            "host": node.name,
            "pool": node.pool,
            "ttl_s": INTRODUCTION_TTL_S,
            "nomad": plan.operator.nomad.url,
            "consul": plan.operator.consul.url,
            "ssh": way_to(self._ssh, node.name),
            "run": run_folder(plan.environment),
            "scratch": scratch_folder(plan.environment),
        }


def _without_nodes(plan: PlatformPlan) -> PlatformPlan:
    return dataclasses.replace(plan, pools=())
