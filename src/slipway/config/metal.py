"""Target `metal`: machines that are owned, listed by name and address or only counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal, Self

from pydantic import Field

from .base import (
    MOST_DEVICES,
    Count,
    PositiveFloat,
    ResourceName,
    SizeBytes,
    UsdPerHour,
)
from .container import BARE, Runtime, container_problems
from .document import KeyPath, Origin
from .errors import Problem, raise_if_any
from .fabric import Fabric, MetalFabric, metal_problems
from .fleet import MAX_POOLS, FleetSettings, ForeignPool
from .hosts import HostSettings, ListedHost, host_problems, key_problems, unplaced
from .model_store import ModelStoreSettings
from .settings import PoolSettings


class MetalPool(PoolSettings):
    """Existing machines: `hosts` by name and address, or a number of `nodes`.

    `usd_per_hour` is the owner's cost of one node, if known. `memory` and `cpu` (cores) are what
    one node offers to tasks; a pool needs both if it has no accelerators, or `hosts` to bring up.
    `image` and `image_archive` are for `runtime: container` (container.py). `fabric` is a word
    (`tcp`) or a mapping (fabric.py).
    """

    TAG = "metal"
    EXAMPLE = "{kind: metal, accelerator: L40S, accelerators_per_node: 8, nodes: 2}"
    kind: Literal["metal"]
    accelerator: str | None = None
    accelerators_per_node: Annotated[int, Field(ge=0, le=MOST_DEVICES)] = 0
    nodes: Count | None = None
    hosts: Annotated[tuple[HostSettings, ...], Field(strict=False)] = ()
    memory: SizeBytes | None = None
    cpu: Count | None = None
    model_store: ModelStoreSettings | None = None
    runtime: Runtime = BARE
    image: str | None = None
    image_archive: str | None = None
    fabric: Fabric = MetalFabric()
    network_gbps: PositiveFloat = 10.0
    usd_per_hour: UsdPerHour | None = None


class ForeignAwsPool(ForeignPool):
    TAG = "aws"
    kind: Literal["aws"]


class MetalSettings(FleetSettings):
    """`server_hosts` are the machines of the servers; without it, servers are only counted.

    `inventory` is a file of the checkout with more machines, of servers and pools (inventory.py):
    Environment.settings has them beside those that are listed here.
    """

    target: Literal["metal"]
    server_hosts: Annotated[tuple[HostSettings, ...], Field(strict=False)] = ()
    inventory: str | None = None
    pools: Annotated[
        Mapping[ResourceName, Annotated[ForeignAwsPool | MetalPool, Field(discriminator="kind")]],
        Field(min_length=1, max_length=MAX_POOLS),
    ]

    @property
    def owned(self) -> Mapping[str, MetalPool]:
        return {name: pool for name, pool in self.pools.items() if isinstance(pool, MetalPool)}

    @property
    def hosts(self) -> tuple[HostSettings, ...]:
        return tuple(host for _, _, host in self._hosts_by_key())

    def checked(self, origin: Origin, inventory: Sequence[ListedHost]) -> Self:
        listed = [
            *(
                ListedHost(host=host, pool=pool, origin=origin, path=path)
                for path, pool, host in self._hosts_by_key()
            ),
            *inventory,
        ]
        raise_if_any([*unplaced(listed, self.owned, self.pools)])
        whole = self._with_hosts(listed)
        accelerators = {name: pool.accelerators_per_node for name, pool in self.owned.items()}
        raise_if_any(
            [
                *whole.problems(origin),
                *host_problems(listed, accelerators, self.network.cidr),
                *key_problems(listed, self.ssh),
            ]
        )
        return whole

    def problems(self, origin: Origin) -> Iterator[Problem]:
        yield from super().problems(origin)
        yield from self._server_problems(origin)
        for name, pool in self.owned.items():
            yield from _pool_problems(name, pool, origin)
            yield from container_problems(pool, ("pools", name), origin)
            yield from metal_problems(
                pool.fabric, pool.accelerators_per_node, ("pools", name, "fabric"), origin
            )

    def shared_address_problems(self, shared: str, origin: Origin) -> Iterator[Problem]:
        path, pool = ("gateway", "address"), self.owned.get(self.gateway.pool)
        owners = {host.address: f"host {host.name}" for host in self.hosts}
        network = IPv4Network(self.network.cidr)
        if pool is None or not pool.hosts:
            yield from super().shared_address_problems(shared, origin)
        elif shared in owners:
            yield origin.problem(
                path,
                f"is the address of {owners[shared]}",
                value=shared,
                fix="choose an address that no host has",
            )
        elif IPv4Address(shared) not in network:
            yield origin.problem(
                path,
                f"is outside the network, which is {network}",
                value=shared,
                fix="choose a free address inside it: hosts of one network can take it over",
            )

    def _server_problems(self, origin: Origin) -> Iterator[Problem]:
        if self.server_hosts and len(self.server_hosts) != self.servers:
            yield origin.problem(
                ("inventory" if self.inventory else "server_hosts",),
                f"does not list as many hosts as slipway:servers says, which is {self.servers}",
                value=len(self.server_hosts),
                fix=f"list {self.servers}, or set slipway:servers to 1, 3 or 5",
            )

    def _hosts_by_key(self) -> Iterator[tuple[KeyPath, str | None, HostSettings]]:
        """(key, pool, host), without a pool for servers."""
        for index, host in enumerate(self.server_hosts):
            yield ("server_hosts", index), None, host
        for name, pool in self.owned.items():
            for index, host in enumerate(pool.hosts):
                yield ("pools", name, "hosts", index), name, host

    def _with_hosts(self, listed: Sequence[ListedHost]) -> Self:
        """With the hosts of the inventory where the stack file may list its own."""
        hosts: dict[str | None, list[HostSettings]] = {}
        for each in listed:
            hosts.setdefault(each.pool, []).append(each.host)
        pools = {
            name: pool.model_copy(update={"hosts": tuple(hosts[name])}) if name in hosts else pool
            for name, pool in self.pools.items()
        }
        servers = tuple(hosts.get(None, ()))
        return self.model_copy(update={"pools": pools, "server_hosts": servers})


def _pool_problems(name: str, pool: MetalPool, origin: Origin) -> Iterator[Problem]:
    if bool(pool.hosts) == (pool.nodes is not None):
        yield origin.problem(
            ("pools", name),
            "has both fixed `hosts` and a number of `nodes`"
            if pool.hosts
            else "has neither `hosts` nor a number of `nodes`",
            value=pool.model_dump(include={"hosts", "nodes"}, exclude_unset=True)
            if pool.hosts
            else None,
            fix="keep `hosts` or `nodes`" if pool.hosts else "add `hosts` or `nodes`",
        )
    if (pool.accelerator is None) != (pool.accelerators_per_node == 0):
        yield origin.problem(
            ("pools", name),
            "must have both `accelerator` and `accelerators_per_node`, or neither",
            fix="add the missing one, or remove the other",
        )
    if pool.memory is not None and pool.cpu is not None:
        return
    if pool.accelerator is None or pool.hosts or (pool.memory, pool.cpu) != (None, None):
        yield origin.problem(
            ("pools", name),
            "has no accelerators, so replicas are placed by its nodes' memory and cores"
            if pool.accelerator is None
            else "must have both `memory` and `cpu`: Nomad counts them of each host",
            fix="add `memory` and `cpu`, e.g. `memory: 64GiB` and `cpu: 32`",
        )
