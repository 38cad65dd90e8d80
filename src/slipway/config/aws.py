"""Target `aws`: instances of Amazon's cloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from .aws_cloud import DEFAULT_ROOT_GIB, AwsCloudSettings, RootGib
from .base import (
    MOST_NODES,
    Count,
    PositiveInt,
    ResourceName,
    Settings,
    UsdPerHour,
    invalid,
    matching,
)
from .document import Origin
from .errors import Problem, suggestion
from .fabric import AwsFabric, MemberSettings, member_problems
from .fleet import MAX_POOLS, FleetSettings, ForeignPool
from .hosts import HostSettings
from .model_store import AwsModelStoreSettings
from .settings import PoolSettings

Market = Literal["on_demand", "spot", "reserved", "capacity_block"]
RESERVED_MARKETS = ("reserved", "capacity_block")
TAKEN_BACK = ("spot", "capacity_block")  # AWS ends such instances when it wants, or at a set time
# AWS has no larger VPC, and in a smaller one fixed pools have no addresses (aws_network.py).
LARGEST_NETWORK, SMALLEST_NETWORK = 16, 19
PRIVATE_NETWORKS = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
ROOT, SSH_PORT = "root", 22
SERVER = "server"  # what the names of servers begin with
ZONES_IN_TURN = 3  # of fixed hosts: a majority of servers survives the loss of any zone


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


def _kind_of_nodes(value: Any) -> str:
    return "elastic" if isinstance(value, Mapping | NodeRange) else "fixed"


MOST_FIXED_NODES = 16  # the addresses of a slot (planner/supply/aws_network.py)
Nodes = Annotated[
    Annotated[int, Field(ge=1, le=MOST_FIXED_NODES), Tag("fixed")]
    | Annotated[NodeRange, AfterValidator(_ordered), Tag("elastic")],
    Discriminator(_kind_of_nodes),
]
Reservation = Annotated[
    str,
    matching(
        "cr-[0-9a-f]{17}",
        allowed="the ID of a capacity reservation or block",
        example="cr-0123456789abcdef0",
    ),
]


class AwsPool(PoolSettings):
    """Instances of one type: so many `nodes` with fixed names and addresses, or between `min` and
    `max` that introduce themselves.

    `instance` is a key of catalog/instances.yaml. `usd_per_hour` is the price of one node, where it
    differs from the catalog's on-demand price. `quota` is the number of instances that the account
    may have. `reservation` is the ID of a capacity reservation or block, and `zone` the only zone
    of the pool, where it is not in all. `root_gib` is the size of each node's root volume. `slot`
    says which block of 16 addresses a fixed pool has; without it, the pool's name decides.
    `fabric` has what does not follow from the instance (fabric.py).
    """

    TAG = "aws"
    EXAMPLE = "{kind: aws, instance: g6.xlarge, nodes: {min: 0, max: 4}}"
    kind: Literal["aws"]
    instance: str
    nodes: Nodes
    market: Market = "on_demand"
    usd_per_hour: UsdPerHour | None = None
    quota: PositiveInt | None = None
    model_store: AwsModelStoreSettings | None = None
    reservation: Reservation | None = None
    zone: str | None = None
    root_gib: RootGib = DEFAULT_ROOT_GIB
    slot: Annotated[int, Field(ge=2, le=31)] | None = None
    fabric: AwsFabric = MemberSettings()

    @property
    def fixed(self) -> int:
        """How many hosts have names and addresses; 0 of an elastic pool."""
        return self.nodes if isinstance(self.nodes, int) else 0

    @property
    def nodes_min(self) -> int:
        return self.nodes.min if isinstance(self.nodes, NodeRange) else self.nodes

    @property
    def nodes_max(self) -> int:
        return self.nodes.max if isinstance(self.nodes, NodeRange) else self.nodes


class ForeignMetalPool(ForeignPool):
    TAG = "metal"
    kind: Literal["metal"]


class AwsSettings(FleetSettings):
    """Nobody lists the machines of a cloud: `server_hosts` and `inventory` are refused.

    The SSH host keys of fixed hosts are derived from `host_key_seed`, a secret that `slipway up`
    sets once.
    """

    target: Literal["aws"]
    aws: AwsCloudSettings | None = None
    host_key_seed: Annotated[str | Mapping[str, str] | None, Field(repr=False)] = None
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
            yield from member_problems(pool.fabric, ("pools", name, "fabric"), origin)
        if self.aws is not None:
            yield from self.aws.problems(origin)
            yield from _build_problems(self, self.aws, origin)


def _quota_problems(name: str, pool: AwsPool, origin: Origin) -> Iterator[Problem]:
    if pool.quota is not None and pool.quota < pool.nodes_min:
        key = "nodes" if pool.fixed else "nodes.min"
        yield origin.problem(
            ("pools", name, "quota"),
            f"is less than {key}, which is {pool.nodes_min}",
            value=pool.quota,
            fix=f"raise the quota to {pool.nodes_min}, or lower {key} to {pool.quota}",
        )


def _build_problems(
    settings: AwsSettings, cloud: AwsCloudSettings, origin: Origin
) -> Iterator[Problem]:
    """What AWS would refuse only at launch, or what nobody could reach: of settings that are to be
    built."""
    yield from _network_problems(settings, origin)
    yield from _ssh_problems(settings, origin)
    yield from _server_zone_problems(settings, cloud, origin)
    gateway = settings.bought.get(settings.gateway.pool)
    if gateway is not None and not gateway.fixed:
        yield origin.problem(
            ("gateway", "pool"),
            "is an elastic pool: clients and the load balancer need hosts that stay",
            value=settings.gateway.pool,
            fix="name a pool with a number of nodes, e.g."
            " `edge: {kind: aws, instance: m7i.xlarge, nodes: 2}`",
        )
    if SERVER in settings.pools:
        yield origin.problem(
            ("pools", SERVER), "would have hosts with the names of servers", fix="rename the pool"
        )
    for name, pool in settings.bought.items():
        yield from _pool_zone_problems(name, pool, cloud, origin)
        yield from _slot_use_problems(name, pool, settings, origin)
        yield from _market_problems(name, pool, origin)


def _ssh_problems(settings: AwsSettings, origin: Origin) -> Iterator[Problem]:
    ssh = settings.ssh
    if ssh is not None and ssh.user != ROOT:
        yield origin.problem(
            ("ssh", "user"),
            "cannot log in: the keys in slipway:aws.authorized_keys are root's",
            value=ssh.user,
            fix="remove it",
        )
    if ssh is not None and ssh.port != SSH_PORT:
        yield origin.problem(
            ("ssh", "port"),
            f"is open on no host: the security groups allow SSH at {SSH_PORT}",
            value=ssh.port,
            fix="remove it",
        )


def _network_problems(settings: AwsSettings, origin: Origin) -> Iterator[Problem]:
    network = IPv4Network(settings.network.cidr)
    if not any(network.subnet_of(private) for private in PRIVATE_NETWORKS):
        yield origin.problem(
            ("network", "cidr"),
            "is outside the networks that AWS recommends for VPCs and routes without limits"
            " (RFC 1918)",
            value=settings.network.cidr,
            fix="use e.g. 10.40.0.0/16",
        )
    prefix = network.prefixlen
    if not LARGEST_NETWORK <= prefix <= SMALLEST_NETWORK:
        yield origin.problem(
            ("network", "cidr"),
            f"has a prefix of {prefix} bits; a VPC with the subnets of eight zones has"
            f" {LARGEST_NETWORK} to {SMALLEST_NETWORK}",
            value=settings.network.cidr,
            fix="use e.g. 10.40.0.0/16",
        )


def _server_zone_problems(
    settings: AwsSettings, cloud: AwsCloudSettings, origin: Origin
) -> Iterator[Problem]:
    needed = min(settings.servers, ZONES_IN_TURN)
    if len(cloud.zones) < needed:
        yield origin.problem(
            ("aws", "zones"),
            f"has fewer zones than {settings.servers} servers need, which is {needed}: losing one"
            " zone could lose the majority of servers",
            value=list(cloud.zones),
            fix=f"list {needed} zones, or set slipway:servers to 1",
        )


def _pool_zone_problems(
    name: str, pool: AwsPool, cloud: AwsCloudSettings, origin: Origin
) -> Iterator[Problem]:
    if pool.zone is not None and pool.zone not in cloud.zones:
        yield origin.problem(
            ("pools", name, "zone"),
            "is not one of slipway:aws.zones",
            value=pool.zone,
            fix=suggestion(pool.zone, cloud.zones),
        )
    needed = min(pool.fixed, ZONES_IN_TURN)
    if pool.zone is None and len(cloud.zones) < needed:
        yield origin.problem(
            ("pools", name, "nodes"),
            f"are spread over {needed} zones, and slipway:aws.zones has {len(cloud.zones)}:"
            " adding a zone later would move hosts to other zones",
            value=pool.fixed,
            fix=f"list {needed} zones, or keep the pool in one: `zone: {cloud.zones[0]}`",
        )


def _slot_use_problems(
    name: str, pool: AwsPool, settings: AwsSettings, origin: Origin
) -> Iterator[Problem]:
    if pool.slot is not None and not pool.fixed:
        yield origin.problem(
            ("pools", name, "slot"),
            "is for fixed pools: AWS gives the nodes of an elastic one their addresses",
            value=pool.slot,
            fix="remove it, or write a number of `nodes`",
        )
    elif pool.slot is not None and name == settings.gateway.pool:
        yield origin.problem(
            ("pools", name, "slot"),
            "is for pools other than the gateway's, whose slot is always 1",
            value=pool.slot,
            fix="remove it",
        )


def _market_problems(name: str, pool: AwsPool, origin: Origin) -> Iterator[Problem]:
    reserved = pool.market in RESERVED_MARKETS
    if reserved and pool.reservation is None:
        yield origin.problem(
            ("pools", name, "market"),
            "needs the ID of what is reserved",
            value=pool.market,
            fix="add `reservation: cr-…`",
        )
    if pool.reservation is not None and not reserved:
        yield origin.problem(
            ("pools", name, "reservation"),
            f"is not used by instances of market {pool.market}",
            value=pool.reservation,
            fix="set `market: reserved` or `market: capacity_block`, or remove it",
        )
    if reserved and pool.zone is None:
        yield origin.problem(
            ("pools", name, "zone"),
            "is missing: a reservation is for one zone",
            fix="add `zone:`, the zone of the reservation",
        )
    if pool.market in TAKEN_BACK and pool.fixed:
        yield origin.problem(
            ("pools", name, "market"),
            "is for elastic pools: AWS ends such instances, and a fixed host has a name and an"
            " address that must come back",
            value=pool.market,
            fix="use on_demand or reserved, or write `nodes: {min: …, max: …}`",
        )
