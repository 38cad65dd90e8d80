"""Hosts that have tokens of Consul before they join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from components import seeds
from components.consul.acl import CLIENT_POLICY, SERVER_POLICY, ours
from slipway.plan.platform import Node, PlatformPlan


class HostTokens:
    """Each host with a known name has two tokens, created before it joins."""

    log_ins = ()
    nomad_server: Mapping[str, Any] = MappingProxyType({})

    def tokens(self, plan: PlatformPlan) -> list[dict[str, Any]]:
        return [
            *(_agent_token(plan, host) for host in _hosts(plan)),
            *(_nomad_token(plan, host.name, SERVER_POLICY) for host in plan.servers),
            *(_nomad_token(plan, node.name, CLIENT_POLICY) for node in _nodes(plan)),
        ]

    def token_secrets(self, plan: PlatformPlan, seed: str) -> dict[str, str]:
        names = [_agent_name, _nomad_name]
        return {
            _accessor(plan, name(host)): seeds.token(seed, name(host))
            for name in names
            for host in _hosts(plan)
        }

    def consul_token(self, host: str, seed: str) -> str:
        return seeds.token(seed, _agent_name(host))

    def nomad_token(self, host: str, seed: str) -> str:
        return seeds.token(seed, _nomad_name(host))

    def joining(self, plan: PlatformPlan) -> None:
        """Agents have their tokens already."""

    def admission(self, plan: PlatformPlan, node: Node) -> None:
        """A node has its tokens already, and removes itself."""


def _agent_name(host: str) -> str:
    """What the token of a host's Consul agent is derived from."""
    return f"consul agent {host}"


def _nomad_name(host: str) -> str:
    """What the Consul token of a host's Nomad agent is derived from."""
    return f"nomad agent {host}"


def _agent_token(plan: PlatformPlan, host: str) -> dict[str, Any]:
    name = _agent_name(host)
    return {
        "AccessorID": _accessor(plan, name),
        "Description": ours(name),
        "NodeIdentities": [{"NodeName": host, "Datacenter": plan.datacenter}],
        "ServiceIdentities": [{"ServiceName": "consul-agent"}],
    }


def _nomad_token(plan: PlatformPlan, host: str, policy: str) -> dict[str, Any]:
    name = _nomad_name(host)
    return {
        "AccessorID": _accessor(plan, name),
        "Description": ours(name),
        "Policies": [{"Name": policy}],
    }


def _accessor(plan: PlatformPlan, name: str) -> str:
    return seeds.public_id(f"{plan.environment}/{name}")


def _hosts(plan: PlatformPlan) -> Iterator[str]:
    for host in (*plan.servers, *_nodes(plan)):
        yield host.name


def _nodes(plan: PlatformPlan) -> list[Any]:
    return [node for pool in plan.pools for node in pool.hosts]
