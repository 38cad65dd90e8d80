"""The configuration of Nomad agents: servers, the client on every node, and beside each server the
publisher of the keys of workload identities.

Everything but the secrets is known at preview. Options with Nomad's default value are left out.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from components import seeds
from components.consul import acl
from components.hosts.document import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    CERTIFICATE_FOLDER,
    CONFIGURATION_FILE,
    DATA_DIRECTORY,
    KEY_FILE,
    NOMAD_CLIENT,
    NOMAD_SERVER,
    RESTART,
    SECRETS_FILE,
    WORKLOAD_KEYS,
    AgentDocument,
    binary,
    host_document,
)
from components.hosts.supervision import Supervision
from components.joining.protocol import Joining
from components.nomad.addresses import LOOPBACK, beside, interface_of, is_loopback, listening
from slipway.plan.platform import Node, PlatformPlan, Pool, Server

NAME = "nomad"
KEY_PUBLISHER = "workload-keys"
KEYS_PATH = "/.well-known/jwks.json"
KEYS_READY_PATH = "/ready"
RPC_PORT = 4647
MANAGEMENT = "management"
DEVICE_RECORD = "devices.json"  # in the agent's data folder: the faults of its devices
DEVICE_PLUGIN = "slipway-devices"  # the executable's name in services/devices/plugin_dir
DOCKER_SOCKET = "/run/docker-nomad.sock"  # why: services/operator/delivery/containers.py
IDENTITY_TTL = "1h"
BYTES_PER_MB = 1024 * 1024  # Nomad's "MB"
# The cap on every task's kill_timeout (Nomad's default is 30 s): the longest drain a model may
# have, a week, plus its job's margin. A lower cap would kill replicas with running streams.
MAX_KILL_TIMEOUT_S = 7 * 24 * 3600 + 30
# Busy cores delay heartbeats, and Nomad starts the replicas of a lost node elsewhere.
HEARTBEAT_GRACE = "30s"
# Metadata services of clouds: each probe would wait for an address that does not exist here.
CLOUD_FINGERPRINTS = "env_aws,env_gce,env_azure,env_digitalocean"
# Ended allocations keep their logs for a while; `slipway doctor` reports a full disk.
KEPT_ALLOCATIONS = 30
DISK_USAGE_PERCENT = 95


def server_document(
    plan: PlatformPlan, server: Server, supervision: Supervision, joining: Joining
) -> dict[str, Any]:
    """A server's Nomad agent, and the publisher of keys beside it (schemas/node.schema.json)."""
    python = supervision.python(plan.node_agent)
    agents = [server_agent(plan, server, joining), key_publisher(plan, server, python)]
    return host_document(server.name, agents, supervision.section(plan.node_agent, agents))


def server_agent(plan: PlatformPlan, server: Server, joining: Joining) -> AgentDocument:
    others = [other.address for other in plan.servers if other != server]
    configuration = {
        **_common(plan, server.name, server.address),
        "server": {
            "enabled": True,
            "bootstrap_expect": len(plan.servers),
            "heartbeat_grace": HEARTBEAT_GRACE,
            **joining.nomad_server,
            **({"server_join": {"retry_join": others}} if others else {}),
        },
    }
    # Answers before there is a leader, unlike /v1/status/…, so that Consul clients start meanwhile;
    # Nomad clients wait by themselves.
    ready_url = f"{plan.nomad.at(server.address).url}/v1/regions"
    agent = _agent(plan, NOMAD_SERVER, configuration, ready_url)
    leader_url = f"{plan.nomad.at(server.address).url}/v1/status/leader"
    return dataclasses.replace(agent, leader_url=leader_url) if others else agent


def client_agent(
    plan: PlatformPlan, pool: Pool, node: Node, *, drain_timeout_s: int
) -> AgentDocument:
    configuration = {
        **_common(plan, node.name, node.address),
        **_plugin_folder(pool),
        "leave_on_interrupt": True,  # and drains: services/host/host/self_drain.py
        "client": {
            "enabled": True,
            "drain_on_shutdown": {"deadline": f"{drain_timeout_s}s"},
            "servers": [f"{server.address}:{RPC_PORT}" for server in plan.servers],
            "node_pool": pool.name,
            # Job documents do not contain paths of the machine; Nomad fills these in.
            "meta": {
                "address": node.address,
                "runtime": "@cache@",
                "scratch": "@scratch@",
                "snapshots": "@run@/snapshots",
                "certificate": CERTIFICATE_FOLDER,
            },
            "network_interface": _interface(node.address),
            "min_dynamic_port": node.min_dynamic_port,
            "max_dynamic_port": node.max_dynamic_port,
            "cpu_total_compute": pool.cpu_mhz,
            "memory_total_mb": pool.memory_bytes // BYTES_PER_MB,
            "max_kill_timeout": f"{MAX_KILL_TIMEOUT_S}s",
            "gc_max_allocs": KEPT_ALLOCATIONS,
            "gc_disk_usage_threshold": DISK_USAGE_PERCENT,
            "gc_inode_usage_threshold": DISK_USAGE_PERCENT,
            "options": {
                "driver.allowlist": ",".join(_drivers(pool)),
                "fingerprint.denylist": CLOUD_FINGERPRINTS,
            },
        },
        "plugin": [
            {"raw_exec": {"config": [{"enabled": True}]}},
            *docker_driver(pool),
            *_device_plugin(plan, pool, node),
        ],
    }
    ready_url = f"{plan.nomad.at(beside(node.address)).url}/v1/agent/health?type=client"
    return _agent(plan, NOMAD_CLIENT, configuration, ready_url)


def _plugin_folder(pool: Pool) -> dict[str, str]:
    plugin = pool.device_plugin
    return {} if plugin is None else {"plugin_dir": f"@cache@/bundles/{plugin.bundle}/plugin_dir"}


def _drivers(pool: Pool) -> tuple[str, ...]:
    """Docker's on every host with accelerators, even without Docker: a pool that returns to bare
    engines has containers until its models are replaced."""
    return ("raw_exec",) if pool.device_plugin is None else ("raw_exec", "docker")


def docker_driver(pool: Pool) -> list[dict[str, Any]]:
    """Containers may mount the host's folders and use NVIDIA's runtime, which the driver picks for
    NVIDIA's devices; they get no capabilities. The delivery brings images, so the driver removes
    none."""
    if pool.device_plugin is None:
        return []
    config = {
        "endpoint": f"unix://{DOCKER_SOCKET}",
        "allow_caps": [],
        "allow_runtimes": ["runc", "nvidia"],
        "gc": [{"image": False}],
        "volumes": [{"enabled": True}],
    }
    return [{"docker": {"config": [config]}}]


def _device_plugin(plan: PlatformPlan, pool: Pool, node: Node) -> list[dict[str, Any]]:
    """The plugin's executable runs the command that its arguments are."""
    plugin = pool.device_plugin
    if plugin is None:
        return []
    command = [
        f"@cache@/envs/{plugin.environment}/bin/python",
        f"@cache@/bundles/{plugin.bundle}/device_plugin.py",
        f"--vendor={plugin.vendor}",
        f"--record={DATA_DIRECTORY}/{DEVICE_RECORD}",
        f"--figures={node.address}:{plugin.figures_port}",
        f"--certificate={CERTIFICATE_FOLDER}",
        f"--reader={plan.peers.prometheus}",
    ]
    return [{DEVICE_PLUGIN: {"args": command}}]


def key_publisher(plan: PlatformPlan, server: Server, python: str) -> AgentDocument:
    """Serves the keys of workload identities to Consul, which shows no certificate when it fetches
    them; Nomad refuses such clients."""
    program, keys = plan.node_agent, plan.workload_keys
    listen = keys if keys.host == LOOPBACK else keys.at(server.address)
    return AgentDocument(
        name=KEY_PUBLISHER,
        stage=WORKLOAD_KEYS,
        command=(
            python,
            f"@cache@/bundles/{program.bundle}/publish_keys.py",
            f"-config={CONFIGURATION_FILE}",
        ),
        configuration={
            "listen": {"address": listen.host, "port": listen.port},
            "nomad": plan.nomad.at(server.address).url,
        },
        ready_url=f"{listen.url}{KEYS_READY_PATH}",
        renewal=RESTART,
    )


def server_secrets(seed: str, consul_token: str, *, gossip_key: int = 1) -> dict[str, Any]:
    """The secret part of a server's configuration; `gossip_key` is the generation of the key."""
    return {
        "server": {"encrypt": seeds.gossip_key(seed, gossip_key)},
        **client_secrets(consul_token),
    }


def client_secrets(consul_token: str) -> dict[str, Any]:
    """The secret part of a client's configuration: only its token for the Consul agent."""
    return {"consul": {"token": consul_token}}


def jwks_url(plan: PlatformPlan) -> str:
    """The URL of the public keys of workload identities."""
    return f"{plan.workload_keys.url}{KEYS_PATH}"


def _agent(
    plan: PlatformPlan, stage: int, configuration: dict[str, Any], ready_url: str
) -> AgentDocument:
    return AgentDocument(
        name=NAME,
        stage=stage,
        command=(
            binary(NAME, plan.tools[NAME]),
            "agent",
            f"-config={CONFIGURATION_FILE}",
            f"-config={SECRETS_FILE}",
        ),
        configuration=configuration,
        ready_url=ready_url,
        # Its connection to Consul reads the certificate only once.
        renewal=RESTART,
    )


def _common(plan: PlatformPlan, name: str, address: str) -> dict[str, Any]:
    identity = {"aud": [acl.IDENTITY_AUDIENCE], "ttl": IDENTITY_TTL}
    return {
        "name": name,
        "datacenter": plan.datacenter,
        "data_dir": DATA_DIRECTORY,
        "bind_addr": address,
        **_several_addresses(address),
        # Explicit, because Nomad does not guess an address to advertise when bound to loopback.
        "advertise": {"http": address, "rpc": address, "serf": address},
        "acl": {"enabled": True},
        "tls": {
            **_certificate(),
            "http": True,
            "rpc": True,
            "verify_https_client": True,
            "verify_server_hostname": True,
        },
        "consul": {
            **_certificate(),
            "address": plan.consul.at(beside(address)).authority,
            "ssl": True,
            "checks_use_advertise": True,
            "client_auto_join": False,
            "server_auto_join": False,
            "service_identity": identity,
            "task_identity": identity,
        },
        "disable_update_check": True,
        "telemetry": {
            "prometheus_metrics": True,
            "publish_allocation_metrics": True,
            "publish_node_metrics": True,
            "disable_hostname": True,
            "collection_interval": "5s",
        },
    }


def _several_addresses(address: str) -> dict[str, Any]:
    """Where the API listens, if that is not at the agent's address alone."""
    several = listening(address)
    return {} if several == address else {"addresses": {"http": several}}


def _interface(address: str) -> str:
    """The interface that has the address, which the agent finds. Loopback addresses need not be set
    anywhere: tasks bind to them, and Nomad sees only lo's first one."""
    if is_loopback(address):
        return "lo"
    return f"{{{{ {interface_of(address)} }}}}"


def _certificate() -> dict[str, Any]:
    return {"ca_file": AUTHORITY_FILE, "cert_file": CERTIFICATE_FILE, "key_file": KEY_FILE}
