"""What joins the hosts of a pool: the network over which the members of a group exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FabricKind = Literal["infiniband", "roce", "efa", "tcp"]
TCP: FabricKind = "tcp"
VERBS: tuple[FabricKind, ...] = ("infiniband", "roce")  # adapters that the user lists as HCAs
RDMA: tuple[FabricKind, ...] = (*VERBS, "efa")

MEMBER_SILENCE_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hca:
    """A port of a host channel adapter, the same on every host of the pool."""

    device: str  # "mlx5_0"
    port: int = 1
    rail: int | None = None  # ports of one rail meet at one switch; None where there are no rails


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Of the check of a fabric before work. `source` is where the value comes from."""

    value: float
    source: str
    date: str  # ISO 8601, when the source was read


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricCheckPlan:
    """The check of the hosts of a pool with groups, before they take members."""

    bundle: str
    rate_gbit_per_s: float | None  # of each rail; None where the pool states none
    thresholds: Mapping[str, Threshold] = field(hash=False)
    # Whether a host takes members though something could not be checked.
    gaps_admit: bool
    measures: bool  # whether hosts measure with each other without being asked to


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSpec:
    """The fabric of a pool. None means that drivers and libraries decide."""

    kind: FabricKind = TCP
    control_interface: str = ""  # "eno1"; "" is the one with the host's address
    interfaces: tuple[str, ...] = ()  # of the fabric; () is the control network's
    networks: tuple[str, ...] = ()  # of the pool's hosts on `interfaces`; () is whoever is there
    hcas: tuple[Hca, ...] = ()  # (): every active port
    mtu: int | None = None  # bytes; on InfiniBand and RoCE of the payload
    gid_index: int | None = None
    traffic_class: int | None = None  # of the lossless class
    service_level: int | None = None
    # Whether adapters must reach the devices' memory by themselves. On EFA, libfabric decides.
    gpudirect: bool = False
    allow_tcp: bool = False  # whether pipelines may cross hosts over TCP
    member_silence_s: int = MEMBER_SILENCE_S  # after which a silent member's group ends
    # The user's overrides of single variables of members.
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
