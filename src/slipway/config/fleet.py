"""What the targets share whose hosts are machines elsewhere, bought from a cloud or owned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from .base import ResourceName, Settings, invalid
from .document import Origin
from .errors import Problem
from .settings import Deployment, EnvironmentSettings, NetworkSettings, PoolSettings
from .ssh import ConnectSettings, SshSettings

MAX_POOLS = 100


def _private_network(text: str) -> str:
    fix = "use a private network, e.g. 10.40.0.0/16"
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise invalid(f"is not an IPv4 network: {error}", fix=fix) from None
    if not network.is_private or network.is_loopback:
        raise invalid("is not a private network", fix=fix)
    return text


class PrivateNetwork(NetworkSettings):
    EXAMPLE = "{cidr: 10.40.0.0/16}"
    cidr: Annotated[str, AfterValidator(_private_network)]


class ForeignPool(PoolSettings):
    """A pool of another target's kind, which is refused whatever else it says."""

    model_config = ConfigDict(extra="ignore")


class FleetDeploymentSettings(Deployment):
    """A model on the cheapest of the named pools: `pool: x` or `pools: [x, y]`."""

    EXAMPLE = "{pools: [l4, h100], replicas: {min: 1, max: 2}}"
    pool: ResourceName | None = None
    pools: Annotated[tuple[ResourceName, ...], Field(strict=False)] = ()

    @property
    def named_pools(self) -> Sequence[tuple[str, str]]:
        single = [] if self.pool is None else [("pool", self.pool)]
        return (*single, *(("pools", pool) for pool in self.pools))


class SnapshotSettings(Settings):
    """How often the states of Consul and Nomad are copied to a host of the gateway's pool, and how
    many copies are kept."""

    EXAMPLE = "{every_h: 1, keep: 24}"
    every_h: Annotated[int, Field(ge=1, le=23)] = 1
    keep: Annotated[int, Field(ge=1, le=1000)] = 24


class FleetSettings(EnvironmentSettings):
    """`ssh` says how hosts with known addresses are reached; without it they can only be
    planned."""

    network: PrivateNetwork
    ssh: SshSettings | None = None
    snapshots: SnapshotSettings = SnapshotSettings()
    models: Mapping[ResourceName, FleetDeploymentSettings]

    def problems(self, origin: Origin) -> Iterator[Problem]:
        yield from super().problems(origin)
        yield from self._foreign_pools(origin)
        if self.target != "aws" and self.ssh and isinstance(self.ssh.jump, ConnectSettings):
            yield origin.problem(
                ("ssh", "jump", "via"),
                "is for hosts on AWS",
                value=self.ssh.jump.via,
                fix="name a jump host: {host: bastion.example.com}",
            )
        for name, deployment in self.models.items():
            if (deployment.pool is None) == (not deployment.pools):
                yield origin.problem(
                    ("models", name),
                    "must name one `pool`, or some `pools` to choose from",
                    value=deployment.model_dump(include={"pool", "pools"}),
                    fix=f"e.g. `pool: {next(iter(self.pools))}`",
                )

    def _foreign_pools(self, origin: Origin) -> Iterator[Problem]:
        for name, pool in self.pools.items():
            if isinstance(pool, ForeignPool):
                yield origin.problem(
                    ("pools", name, "kind"),
                    f"is not a pool of target {self.target}",
                    value=pool.kind,
                    fix=f"use kind {self.target}, or change the target",
                )
