"""How a host proves its identity to Consul."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from components import seeds
from components.consul.acl import CLIENT_POLICY, SERVER_POLICY, LogIn, ours
from slipway.plan.platform import Node, PlatformPlan


class Joining(Protocol):
    """The credentials of hosts: the tokens registered in Consul, those given to each host, and
    those that a host gets by itself."""

    @property
    def log_ins(self) -> Sequence[LogIn]:
        """How agents get their own tokens."""

    @property
    def nomad_server(self) -> Mapping[str, Any]:
        """What Nomad's servers have to be told of it: a part of their configuration."""

    def tokens(self, plan: PlatformPlan) -> list[dict[str, Any]]:
        """The tokens that Consul knows before hosts join, without secrets."""

    def token_secrets(self, plan: PlatformPlan, seed: str) -> dict[str, str]:
        """The secrets of `tokens`, by accessor id."""

    def consul_token(self, host: str, seed: str) -> str:
        """The token of the host's Consul agent."""

    def nomad_token(self, host: str, seed: str) -> str:
        """The Consul token of the host's Nomad agent."""

    def joining(self, plan: PlatformPlan) -> Mapping[str, Any] | None:
        """The part of a node's document that says how its agents log in; None if they do not."""

    def admission(self, plan: PlatformPlan, node: Node) -> Mapping[str, Any] | None:
        """The document of what the operator does before a node can join, and after it has left;
        None if there is nothing to do."""


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
