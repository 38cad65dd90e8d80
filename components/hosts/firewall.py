"""The firewall of hosts whose pool has replicas over several hosts (docs/adr/0030). Pure.

The hosts' own programs make rules of it (services/host/host/firewall_rules.py), because they know
which ports the kernel gives engines.
"""

from __future__ import annotations

from typing import Any

from slipway.plan.platform import PlatformPlan, Pool

# Debian package -> the file that a host needs of it.
NFTABLES_PACKAGE = {"nftables": "/usr/sbin/nft"}


def has_members(plan: PlatformPlan, pool: Pool) -> bool:
    """Whether engines on different hosts of the pool talk to each other."""
    return any(model.pool == pool.name and model.replica.nodes > 1 for model in plan.models)


def needs_firewall(plan: PlatformPlan, pool: Pool) -> bool:
    """Members on this machine talk over its loopback interface. Nobody knows the addresses of
    members that AWS starts: there the group of their interfaces admits them
    (components/aws_network/security_groups.py)."""
    leaves_machine = any(
        model.pool == pool.name and model.replica.proxy is not None for model in plan.models
    )
    return bool(pool.hosts) and leaves_machine and has_members(plan, pool)


def firewall(plan: PlatformPlan, pool: Pool) -> dict[str, Any]:
    """`firewall` of schemas/node.schema.json."""
    fabric, any_host = pool.fabric, pool.hosts[0]
    section: dict[str, Any] = {
        "members": [node.address for node in pool.hosts],
        "served_ports": [any_host.min_dynamic_port, any_host.max_dynamic_port],
    }
    if clients := _clients(plan, pool):
        section["clients"] = clients
    if fabric.control_interface:
        section["control_interface"] = fabric.control_interface
    if fabric.interfaces:
        section["interfaces"] = list(fabric.interfaces)
    if fabric.networks:
        section["networks"] = list(fabric.networks)
    return section


def _clients(plan: PlatformPlan, pool: Pool) -> list[str]:
    """Of replicas: the gateway, and what reads their figures."""
    names = {
        plan.monitoring.pool,
        plan.autoscaling.pool,
        *(envoy.pool for envoy in plan.gateway.envoys),
    }
    hosts = (node for name in sorted(names - {pool.name}) for node in plan.pool(name).hosts)
    return [node.address for node in hosts]
