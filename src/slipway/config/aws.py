"""Target `aws`: instances of Amazon's cloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import MOST_NODES, Count, PositiveInt, ResourceName, Settings, UsdPerHour, invalid
from .document import Origin
from .errors import Problem
from .fleet import MAX_POOLS, FleetSettings, ForeignPool
from .hosts import HostSettings
from .model_store import ModelStoreSettings
from .settings import PoolSettings

Market = Literal["on_demand", "spot", "reserved", "capacity_block"]


class NodeRange(Settings):
    """The least and most nodes of a cloud pool."""

    EXAMPLE = "{min: 0, max: 4}"
    min: Annotated[int, Field(ge=0, le=MOST_NODES)] = 0
    max: Count


def _ordered(nodes: NodeRange) -> NodeRange:
    if nodes.min > nodes.max:
        raise invalid(
            "min is greater than max",
            fix=f"raise max to {nodes.min} or lower min to {nodes.max}",
        )
    return nodes


class AwsPool(PoolSettings):
    """Instances of one type.

    `instance` is a key of catalog/instances.yaml. `usd_per_hour` is the price of one node, where it
    differs from the catalog's on-demand price. `quota` is the number of instances that the account
    may have.
    """

    TAG = "aws"
    EXAMPLE = "{kind: aws, instance: g6.xlarge, nodes: {min: 0, max: 4}}"
    kind: Literal["aws"]
    instance: str
    nodes: Annotated[NodeRange, AfterValidator(_ordered)]
    market: Market = "on_demand"
    usd_per_hour: UsdPerHour | None = None
    quota: PositiveInt | None = None
    model_store: ModelStoreSettings | None = None


class ForeignMetalPool(ForeignPool):
    TAG = "metal"
    kind: Literal["metal"]


class AwsSettings(FleetSettings):
    """Nobody lists the machines of a cloud: `server_hosts` and `inventory` are refused."""

    target: Literal["aws"]
    pools: Annotated[
        Mapping[ResourceName, Annotated[AwsPool | ForeignMetalPool, Field(discriminator="kind")]],
        Field(min_length=1, max_length=MAX_POOLS),
    ]
    server_hosts: Annotated[tuple[HostSettings, ...], Field(strict=False)] = ()
    inventory: str | None = None

    @property
    def bought(self) -> Mapping[str, AwsPool]:
        return {name: pool for name, pool in self.pools.items() if isinstance(pool, AwsPool)}

    def problems(self, origin: Origin) -> Iterator[Problem]:
        yield from super().problems(origin)
        for key in ("server_hosts", "inventory"):
            if getattr(self, key):
                yield origin.problem((key,), "applies to target metal only", fix=f"remove `{key}`")
        for name, pool in self.bought.items():
            yield from _quota_problems(name, pool, origin)


def _quota_problems(name: str, pool: AwsPool, origin: Origin) -> Iterator[Problem]:
    if pool.quota is not None and pool.quota < pool.nodes.min:
        yield origin.problem(
            ("pools", name, "quota"),
            f"is less than nodes.min, which is {pool.nodes.min}",
            value=pool.quota,
            fix=f"raise the quota to {pool.nodes.min}, or lower nodes.min to {pool.quota}",
        )
