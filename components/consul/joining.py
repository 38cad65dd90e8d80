"""How a host proves its identity to Consul."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from components import seeds
from components.consul.acl import CLIENT_POLICY, SERVER_POLICY, ours
from slipway.plan.platform import PlatformPlan


class Joining(Protocol):
    """The credentials of hosts: the tokens registered in Consul, and those given to each host."""

    def tokens(self, plan: PlatformPlan) -> list[dict[str, Any]]:
        """The tokens that Consul knows before hosts join, without secrets."""

    def token_secrets(self, plan: PlatformPlan, seed: str) -> dict[str, str]:
        """The secrets of `tokens`, by accessor id."""

    def consul_token(self, host: str, seed: str) -> str:
        """The token of the host's Consul agent."""

    def nomad_token(self, host: str, seed: str) -> str:
        """The Consul token of the host's Nomad agent."""


class HostTokens:
    """Each host with a known name has two tokens, created before it joins."""

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
