"""The hosts that an environment's files name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cli.errors import WRONG_INPUT, CliError
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`pool` is empty for a server."""

    name: str
    role: Literal["server", "node"]
    pool: str
    address: str


def roster(plan: PlatformPlan) -> tuple[Member, ...]:
    """Servers first, then the pools' nodes."""
    servers = (
        Member(name=server.name, role="server", pool="", address=server.address)
        for server in plan.servers
    )
    nodes = (
        Member(name=node.name, role="node", pool=pool.name, address=node.address)
        for pool in plan.pools
        for node in pool.hosts
    )
    return (*servers, *nodes)


def member(plan: PlatformPlan, name: str) -> Member:
    """CliError (wrong input) with the names that exist."""
    members = roster(plan)
    for each in members:
        if each.name == name:
            return each
    raise unknown(name, plan.environment, (each.name for each in members))


def unknown(name: str, environment: str, known: Iterable[str]) -> CliError:
    return CliError(
        f'"{environment}" has no host "{name}"',
        fix=f"use one of: {', '.join(sorted(known))}",
        exit_code=WRONG_INPUT,
    )
