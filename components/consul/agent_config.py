"""The configuration of Consul agents: servers, and the client on every node.

Everything but the secrets is known at preview. Options with Consul's default value are left out.
"""

from __future__ import annotations

import dataclasses
from ipaddress import ip_address
from typing import Any

from components import seeds
from components.consul import acl
from components.hosts.document import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    CONFIGURATION_FILE,
    CONSUL_CLIENT,
    CONSUL_SERVER,
    DATA_DIRECTORY,
    KEY_FILE,
    RELOAD,
    SECRETS_FILE,
    AgentDocument,
    binary,
    host_document,
)
from components.hosts.supervision import Supervision
from components.nomad.addresses import beside, listening
from slipway.plan.platform import Node, PlatformPlan, Server

NAME = "consul"
SERVICE = "consul-agent"  # by which Prometheus finds the agents
DEVICES = "devices"  # the metadata of nodes that have some: their vendor
# Tasks poll and watch from one address. A control plane has a connection for each protocol of each
# model: 2,000 for a thousand models, where the default is 200.
MAX_CONNECTIONS_PER_ADDRESS = 10_000


def server_document(plan: PlatformPlan, server: Server, supervision: Supervision) -> dict[str, Any]:
    """A server's Consul agent (schemas/node.schema.json)."""
    agents = [server_agent(plan, server)]
    return host_document(server.name, agents, supervision.section(plan.node_agent, agents))


def server_agent(plan: PlatformPlan, server: Server) -> AgentDocument:
    others = [other.address for other in plan.servers if other != server]
    configuration = {
        **_common(plan, server.name, server.address),
        "server": True,
        "bootstrap_expect": len(plan.servers),
        "ui_config": {"enabled": True},  # for those with a certificate, as by `slipway ui`
        "performance": {"raft_multiplier": _raft_multiplier(server, alone=not others)},
        **({"retry_join": others} if others else {}),
    }
    agent = _agent(plan, CONSUL_SERVER, server.address, configuration)
    return dataclasses.replace(agent, leader_url=agent.ready_url) if others else agent


def _raft_multiplier(server: Server, *, alone: bool) -> int:
    """The factor of Consul's election timeouts. Its default suits small machines, also one that
    several servers share; Consul's guide to production says 1."""
    return 5 if ip_address(server.address).is_loopback and not alone else 1


def client_agent(plan: PlatformPlan, node: Node) -> AgentDocument:
    configuration = {
        **_common(plan, node.name, node.address),
        "retry_join": [server.address for server in plan.servers],
        # A restart keeps the node's services in the catalog: leaving would remove every endpoint of
        # the node from Envoy. services/host removes a node that is deleted.
        "leave_on_terminate": False,
        "skip_leave_on_interrupt": True,
        **_with_devices(plan, node),
    }
    return _agent(plan, CONSUL_CLIENT, node.address, configuration)


def _with_devices(plan: PlatformPlan, node: Node) -> dict[str, Any]:
    """By this Prometheus finds the nodes whose device plugin has figures."""
    plugin = plan.pool(node.pool).device_plugin
    return {} if plugin is None else {"node_meta": {DEVICES: plugin.vendor}}


def server_secrets(seed: str, token: str, *, gossip_key: int = 1) -> dict[str, Any]:
    """The secret part of a server's configuration. Consul creates the management token itself."""
    secrets = client_secrets(seed, token, gossip_key=gossip_key)
    secrets["acl"]["tokens"]["initial_management"] = seeds.token(seed, acl.MANAGEMENT)
    return secrets


def client_secrets(seed: str, token: str, *, gossip_key: int = 1) -> dict[str, Any]:
    """The secret part of a client's configuration; `token` is the agent's own, `gossip_key` the
    generation of the key."""
    return {
        "encrypt": seeds.gossip_key(seed, gossip_key),
        "acl": {"tokens": {"agent": token, "config_file_service_registration": token}},
    }


def _agent(
    plan: PlatformPlan, stage: int, address: str, configuration: dict[str, Any]
) -> AgentDocument:
    return AgentDocument(
        name=NAME,
        stage=stage,
        command=(
            binary(NAME, plan.tools[NAME]),
            "agent",
            f"-config-file={CONFIGURATION_FILE}",
            f"-config-file={SECRETS_FILE}",
        ),
        configuration=configuration,
        # A server is ready when it answers, with or without peers; a client when it has found the
        # servers.
        ready_url=f"{plan.consul.at(beside(address)).url}/v1/status/leader",
        renewal=RELOAD,
    )


def _common(plan: PlatformPlan, name: str, address: str) -> dict[str, Any]:
    return {
        "node_name": name,
        "datacenter": plan.datacenter,
        "data_dir": DATA_DIRECTORY,
        "bind_addr": address,
        "client_addr": listening(address),
        "advertise_addr": address,
        # Consul's standard ports, because every agent has its own address; unused ones are closed.
        "ports": {
            "http": -1,
            "https": plan.consul.port,
            "dns": -1,
            "grpc": -1,
            "grpc_tls": -1,
            "serf_wan": -1,
        },
        "tls": {
            "defaults": {
                "ca_file": AUTHORITY_FILE,
                "cert_file": CERTIFICATE_FILE,
                "key_file": KEY_FILE,
                "verify_incoming": True,
                "verify_outgoing": True,
            },
            # Only a certificate with the servers' name may serve: a node's may not.
            "internal_rpc": {"verify_server_hostname": True},
        },
        # Checks of services over https show the agent's own certificate.
        "enable_agent_tls_for_checks": True,
        "acl": {"enabled": True, "default_policy": "deny", "enable_token_persistence": True},
        "connect": {"enabled": False},  # no service mesh: Envoy gets its clusters from services/xds
        "disable_update_check": True,
        "limits": {"http_max_conns_per_client": MAX_CONNECTIONS_PER_ADDRESS},
        "telemetry": {"prometheus_retention_time": "5m", "disable_hostname": True},
        "services": [
            {
                "name": SERVICE,
                "address": address,
                "port": plan.consul.port,
                "tags": ["metrics"],
                "meta": {"metrics_path": "/v1/agent/metrics", "metrics_format": "prometheus"},
            }
        ],
    }
