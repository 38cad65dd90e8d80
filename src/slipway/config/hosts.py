"""The machines that an environment lists: each belongs to one place, and only once."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from .base import MOST_DEVICES, Ipv4, ResourceName, Settings
from .document import KeyPath, Origin
from .errors import Problem, suggestion
from .ssh import HostSshSettings, SshSettings

SERVER_NAME = re.compile(r"server-\d+")
# OpenSSH's server ends a connection after 6 attempts, and each key of an agent may be one.
MOST_KEYS = 5


class HostSettings(Settings):
    """A machine. `ssh` overrides slipway:ssh for this host; `accelerators`, where it is stated,
    must be the number that the pool has on every node. `domain` names the part of the site whose
    hosts are joined by one fabric."""

    EXAMPLE = "{name: rack1-3, address: 10.50.0.13}"
    name: ResourceName
    address: Ipv4
    accelerators: Annotated[int, Field(ge=0, le=MOST_DEVICES)] | None = None
    domain: ResourceName | None = None
    ssh: HostSshSettings = HostSshSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHost:
    """A host, where it is listed, and the pool it belongs to: None for servers."""

    host: HostSettings
    pool: str | None
    origin: Origin
    path: KeyPath

    @property
    def owner(self) -> str:
        return "a server" if self.pool is None else f"a host of pool {self.pool}"

    def problem(self, key: KeyPath, message: str, *, fix: str, value: Any) -> Problem:
        """A problem with one key of the host."""
        return self.origin.problem((*self.path, *key), message, fix=fix, value=value)


def unplaced(
    listed: Iterable[ListedHost], owned: Collection[str], pools: Collection[str]
) -> Iterator[Problem]:
    """Hosts of pools that do not exist, or that are not made of `owned` machines."""
    for each in listed:
        if each.pool is not None and each.pool not in owned:
            wrong = (
                "is not a pool of owned machines"
                if each.pool in pools
                else "names a pool this environment does not have"
            )
            yield each.problem(("pool",), wrong, value=each.pool, fix=suggestion(each.pool, owned))


def host_problems(
    listed: Iterable[ListedHost], accelerators: Mapping[str, int], cidr: str
) -> Iterator[Problem]:
    """Hosts outside the network, hosts that are listed twice, and hosts with another number of
    `accelerators` than the nodes of their pool."""
    network = ipaddress.IPv4Network(cidr)
    owners: dict[str, str] = {}
    for each in listed:
        host = each.host
        if ipaddress.IPv4Address(host.address) not in network:
            yield each.problem(
                ("address",),
                f"is outside the network, which is {network}",
                value=host.address,
                fix="correct the address, or slipway:network",
            )
        for key, known in (("name", host.name), ("address", host.address)):
            if known in owners:
                yield each.problem(
                    (key,), f"is already {owners[known]}", value=known, fix="list every host once"
                )
            owners[known] = f"{each.owner} in {each.origin.source}"
        if each.pool is not None and SERVER_NAME.fullmatch(host.name):
            yield each.problem(
                ("name",), "is named like a server", value=host.name, fix="rename the host"
            )
        yield from _other_accelerators(each, accelerators)


def _other_accelerators(each: ListedHost, accelerators: Mapping[str, int]) -> Iterator[Problem]:
    expected = 0 if each.pool is None else accelerators[each.pool]
    if each.host.accelerators in (None, expected):
        return
    where = "servers have" if each.pool is None else f"slipway:pools.{each.pool} says"
    yield each.problem(
        ("accelerators",),
        f"differs from what {where}, which is {expected}",
        value=each.host.accelerators,
        fix=f"write {expected}, or list the host in a pool of such machines",
    )


def key_problems(listed: Sequence[ListedHost], ssh: SshSettings | None) -> Iterator[Problem]:
    """Hosts with private keys of their own that no ssh-agent can offer."""
    own = [each for each in listed if each.host.ssh.key is not None]
    if ssh is not None and ssh.key is None:
        for each in own:
            yield each.problem(
                ("ssh", "key"),
                "is a host's own key, but slipway:ssh names none for the others",
                value=each.host.ssh.key,
                fix="name one in slipway:ssh.key, or `ssh-add` all of them and name none",
            )
    keys = {each.host.ssh.key for each in own} | {ssh.key if ssh else None}
    if len(keys - {None}) > MOST_KEYS:
        yield own[-1].problem(
            ("ssh", "key"),
            f"is one of {len(keys)} keys; SSH servers refuse a client that offers so many",
            value=own[-1].host.ssh.key,
            fix=f"use at most {MOST_KEYS}",
        )
