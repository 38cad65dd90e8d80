"""How a host proves its identity to Consul and Nomad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from components.consul.acl import LogIn
from slipway.plan.platform import Node, PlatformPlan


class Joining(Protocol):
    """The credentials of hosts: the tokens registered in Consul, those given to each host, and
    those that a host gets by itself."""

    @property
    def log_ins(self) -> Sequence[LogIn]:
        """How agents get their own tokens."""

    @property
    def nomad_server(self) -> Mapping[str, Any]:
        """The part of the Nomad servers' configuration that this way of joining needs."""

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
        """The document of the operator's program that admits a node before it joins and forgets it
        after it has left; None if there is none."""
