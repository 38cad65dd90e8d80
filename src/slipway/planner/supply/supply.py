"""What one pool offers: nodes, devices, memory, network, price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slipway.config.catalog import Accelerator
from slipway.config.document import Origin
from slipway.config.errors import Problem, suggestion
from slipway.config.fabric import CheckSettings
from slipway.plan.fabric import FabricSpec
from slipway.plan.figures import Figure, Layout
from slipway.plan.platform import ContainerImage, ModelStore, Node

OWNED = "owned"
MHZ_PER_CORE = 1000  # Slipway's nominal core, in Nomad's unit: shares, not clock speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """One pool. `node_usd_per_hour` is what one node costs; `price_date` is ISO, "" without one."""

    pool: str
    kind: str
    instance: str  # catalog key; "" on owned machines
    accelerator_name: str  # catalog key; "" on a CPU pool
    accelerator: Accelerator | None
    accelerators_per_node: int
    nodes_min: int
    nodes_max: int
    market: str
    network_gbps: float
    network_sustained_gbps: float | None  # where network_gbps is a burst
    node_usd_per_hour: Figure
    price_date: str
    link_latency_us: float  # of a message between two nodes, one way
    fabric: FabricSpec = field(default_factory=FabricSpec)  # between nodes
    fabric_limits: CheckSettings | None = None  # of its check, that the user states
    rail_gbps: float | None = None  # of each link of the fabric; None where nobody states it
    quota_nodes: int | None = None
    node_memory_bytes: int = 0  # what one node offers to tasks; 0 where unknown
    node_cpu_mhz: int = 0
    tasks_per_core: int = 1  # more where tasks take turns on the cores
    hosts: tuple[Node, ...] = ()  # empty where names and addresses are not known
    # Whether its nodes join by themselves: they share one certificate, which has no addresses.
    joins_by_itself: bool = False
    on_loopback: bool = False  # whether all its nodes are this machine
    holds_gateway: bool = False
    model_store: ModelStore | None = None  # None: the runtime folder, whose size is not known
    image: ContainerImage | None = None  # None: engines run from environments of the hosts
    warnings: tuple[str, ...] = ()

    @property
    def device(self) -> Accelerator:
        """The accelerator of a pool that has accelerators."""
        assert self.accelerator is not None, "a pool of accelerators"  # noqa: S101
        return self.accelerator

    @property
    def sustained_gbps(self) -> float:
        """The rate that a node's network sustains."""
        return self.network_sustained_gbps or self.network_gbps

    @property
    def device_usd_per_hour(self) -> float:
        return self.node_usd_per_hour.value / self.accelerators_per_node

    @property
    def gateway_hosts(self) -> tuple[Node, ...]:
        """Those with an Envoy: every host of the gateway's pool, or the first on one machine. Empty
        where hosts are not known, and for every other pool."""
        if not self.holds_gateway:
            return ()
        return self.hosts[:1] if self.on_loopback else self.hosts

    def hosts_of(self, layout: Layout) -> int:
        """The hosts that a replica takes. Without accelerators each of its members has one."""
        return layout.nodes(self.accelerators_per_node or 1)

    @property
    def elastic(self) -> bool:
        """Whether a new replica may have to wait for a new node."""
        return self.nodes_max > self.nodes_min


def unknown(
    key: str, value: str, known: Mapping[str, object], pool: str, origin: Origin
) -> Problem:
    """`known` are the names in catalog/<key>s.yaml."""
    return origin.problem(
        ("pools", pool, key),
        f"is not in catalog/{key}s.yaml",
        value=value,
        fix=suggestion(value, known),
    )


def declared_price(pool: str, origin: Origin) -> str:
    return f"{origin.source}: usd_per_hour of pool {pool}"


def price(usd_per_hour: float, source: str) -> Figure:
    return Figure(value=usd_per_hour, unit="USD/h", basis="declared", source=source)
