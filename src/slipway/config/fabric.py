"""The fabric of a pool: what joins its hosts, and what the members of a group are told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from .base import PositiveFloat, Settings, invalid, matching
from .document import KeyPath, Origin
from .errors import Problem, suggestion
from .hosts import HostSettings

Item = TypeVar("Item", bound=Hashable)
Kind = Literal["infiniband", "roce", "tcp"]
KINDS: tuple[Kind, ...] = ("infiniband", "roce", "tcp")
TCP: Kind = "tcp"

# The payloads that InfiniBand has (IBTA specification, volume 1, 11.2.4), RoCE as well.
PAYLOADS = (256, 512, 1024, 2048, 4096)
# Of IP: the least that IPv6 allows (RFC 8200, 5), and the most that IP over InfiniBand has.
LEAST_IP_MTU, MOST_IP_MTU = 1280, 65_520

# What the launcher of a member sets, because it follows from the group or from the devices.
OWNED_BY_LAUNCHER = frozenset(
    {
        "VLLM_HOST_IP",
        "VLLM_PORT",
        "VLLM_DP_RANK",
        "VLLM_DP_RANK_LOCAL",
        "VLLM_DP_SIZE",
        "VLLM_DP_MASTER_IP",
        "VLLM_DP_MASTER_PORT",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "GROUP_RANK",
        "NCCL_COMM_ID",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)
# AWS's own guide (aws/aws-ofi-nccl, doc/efa-env-var.md, read 2026-11-29) says to leave them out.
OUTDATED: Mapping[str, str] = {
    "FI_EFA_USE_DEVICE_RDMA": "libfabric decides by itself since 1.18",
    "FI_EFA_FORK_SAFE": "the plugin sets it where it is needed",
    "RDMAV_FORK_SAFE": "it breaks current kernels",
}


def _text(value: Any) -> Any:
    """YAML reads `22` as a number; variables are text."""
    return str(value) if type(value) is int else value


def _network(text: str) -> str:
    """An address, or a network."""
    try:
        return str(IPv4Network(text)).removesuffix("/32")
    except ValueError as error:
        raise invalid(
            f"must be an address or a network: {error}", fix="write e.g. 10.80.0.16/28"
        ) from None


# Linux has names of at most 15 bytes (IFNAMSIZ, dev_valid_name).
Interface = Annotated[
    str,
    matching("[A-Za-z0-9][A-Za-z0-9._-]{0,14}", allowed="the name of an interface", example="eno1"),
]
Device = Annotated[
    str, matching("[A-Za-z0-9][A-Za-z0-9._-]{0,62}", allowed="the name of an HCA", example="mlx5_0")
]
Network = Annotated[str, AfterValidator(_network)]
VariableName = Annotated[
    str, matching("[A-Z][A-Z0-9_]*", allowed="the name of a variable", example="NCCL_DEBUG")
]
VariableValue = Annotated[
    str, BeforeValidator(_text), matching("[ -~]+", allowed="one line of text", example="INFO")
]


# Of the line rate: no link reaches more.
Share = Annotated[PositiveFloat, Field(le=1)]


class HcaSettings(Settings):
    """A port of a host channel adapter, the same on every host. `rail` is the number of the switch
    at which ports of all hosts meet, where each has its own."""

    EXAMPLE = "{device: mlx5_0, port: 1, rail: 0}"
    device: Device
    port: Annotated[int, Field(ge=1, le=255)] = 1
    rail: Annotated[int, Field(ge=0, le=255)] | None = None


class CheckSettings(Settings):
    """What the check of a host's fabric asks for, instead of catalog/fabric_thresholds.yaml: shares
    of the line rate and of the other rails' median, and microseconds."""

    EXAMPLE = "{bandwidth_share: 0.9, latency_us: 100}"
    bandwidth_share: Share | None = None
    rail_share: Share | None = None
    latency_us: PositiveFloat | None = None
    jitter_us: PositiveFloat | None = None


class MemberSettings(Settings):
    """What every fabric has. `allow_tcp` lets pipelines cross hosts over TCP, `member_silence_s` is
    after how long a silent member's group ends, and `environment` overrides single variables of
    members. With `check`, hosts measure TCP with each other before they take members; RDMA they
    measure in any case."""

    EXAMPLE = "{allow_tcp: true}"
    allow_tcp: bool = False
    member_silence_s: Annotated[int, Field(ge=1, le=300)] = 5
    environment: Mapping[VariableName, VariableValue] = Field(default_factory=dict)
    check: CheckSettings | None = None


class InterfaceSettings(MemberSettings):
    """`control_interface` is the one with the host's address where it is left out; `interfaces` are
    those of the fabric, without any the control network's."""

    control_interface: Interface | None = None
    interfaces: Annotated[tuple[Interface, ...], Field(strict=False)] = ()


class LocalFabric(InterfaceSettings):
    """Of pools on one machine."""

    EXAMPLE = "{kind: tcp, allow_tcp: true}"
    kind: Literal["tcp"] = "tcp"


class MetalFabric(InterfaceSettings):
    """`networks` are those of the pool's hosts on `interfaces`: no others reach engines there.
    `mtu` is in bytes, on InfiniBand and RoCE of the payload. `gpudirect` is unset where adapters
    reach the memory of devices by themselves, which they do on InfiniBand and RoCE."""

    EXAMPLE = "{kind: roce, interfaces: [ens1f0], hcas: [{device: mlx5_0}], gid_index: 3}"
    kind: Kind = TCP
    networks: Annotated[tuple[Network, ...], Field(strict=False)] = ()
    hcas: Annotated[tuple[HcaSettings, ...], Field(strict=False)] = ()
    mtu: int | None = None
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    traffic_class: Annotated[int, Field(ge=0, le=255)] | None = None
    service_level: Annotated[int, Field(ge=0, le=15)] | None = None
    gpudirect: bool | None = None


def _of_word(value: Any) -> Any:
    """`fabric: tcp` is short for {kind: tcp}."""
    if not isinstance(value, str):
        return value
    if value not in KINDS:
        raise invalid(
            f"must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, or a mapping",
            fix=suggestion(value, KINDS),
        )
    return {"kind": value}


def _of_local_word(value: Any) -> Any:
    if isinstance(value, str) and value != TCP:
        raise invalid("must be tcp, or a mapping: this machine has no other", fix="write tcp")
    return {"kind": value} if isinstance(value, str) else value


def _of_instance(value: Any) -> Any:
    if isinstance(value, MemberSettings):
        return value
    keys = [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping) else []
    for key in keys:
        if isinstance(value, str) or (
            key in MetalFabric.model_fields and key not in MemberSettings.model_fields
        ):
            raise invalid(
                f"cannot say `{key}` on AWS: it follows from the instance",
                fix=f"remove `{key}`; {', '.join(MemberSettings.model_fields)} may be set",
            )
    return value


Fabric = Annotated[MetalFabric, BeforeValidator(_of_word)]
LoopbackFabric = Annotated[LocalFabric, BeforeValidator(_of_local_word)]
AwsFabric = Annotated[MemberSettings, BeforeValidator(_of_instance)]


def member_problems(fabric: MemberSettings, path: KeyPath, origin: Origin) -> Iterator[Problem]:
    """Overrides of variables that no user sets. `path` is the key of the fabric."""
    for name, value in fabric.environment.items():
        if name in OWNED_BY_LAUNCHER:
            message = "is set by the launcher of each member: it follows from group and devices"
        elif name in OUTDATED:
            message = f"should not be set any more: {OUTDATED[name]}"
        else:
            continue
        yield origin.problem(
            (*path, "environment", name), message, value=value, fix=f"remove {name}"
        )


def interface_problems(
    fabric: InterfaceSettings, path: KeyPath, origin: Origin
) -> Iterator[Problem]:
    yield from member_problems(fabric, path, origin)
    for twice in _repeated(fabric.interfaces):
        yield origin.problem(
            (*path, "interfaces"), "lists an interface twice", value=twice, fix="list it once"
        )


def metal_problems(
    fabric: MetalFabric, accelerators: int, path: KeyPath, origin: Origin
) -> Iterator[Problem]:
    """Settings that contradict each other. `accelerators` is the number that a host has."""
    yield from interface_problems(fabric, path, origin)
    yield from _network_problems(fabric, path, origin)
    yield from _mtu_problems(fabric, path, origin)
    if fabric.kind == TCP:
        yield from _adapter_problems(fabric, path, origin)
    elif fabric.gpudirect and not accelerators:
        yield origin.problem(
            (*path, "gpudirect"), "needs accelerators", value=True, fix="remove gpudirect"
        )
    yield from _hca_problems(fabric.hcas, (*path, "hcas"), origin)


def _adapter_problems(fabric: MetalFabric, path: KeyPath, origin: Origin) -> Iterator[Problem]:
    """What only InfiniBand and RoCE have."""
    given = fabric.model_dump(
        include={"hcas", "gid_index", "traffic_class", "service_level", "gpudirect"},
        exclude_defaults=True,
    )
    for key, value in given.items():
        if value is not False:
            yield origin.problem(
                (*path, key),
                "is for adapters of InfiniBand and RoCE, and this fabric is tcp",
                value=value,
                fix=f"remove {key}, or set `kind: infiniband` or `kind: roce`",
            )


def _network_problems(fabric: MetalFabric, path: KeyPath, origin: Origin) -> Iterator[Problem]:
    if fabric.networks and not fabric.interfaces:
        yield origin.problem(
            (*path, "networks"),
            "is for hosts with `interfaces` of the fabric: on the control network, engines are"
            " reached by the addresses in `hosts`",
            value=", ".join(fabric.networks),
            fix="remove networks, or add `interfaces`",
        )
    for twice in _repeated(fabric.networks):
        yield origin.problem(
            (*path, "networks"), "lists a network twice", value=twice, fix="list it once"
        )


def _mtu_problems(fabric: MetalFabric, path: KeyPath, origin: Origin) -> Iterator[Problem]:
    mtu = fabric.mtu
    if mtu is None:
        return
    if fabric.kind == TCP:
        if not LEAST_IP_MTU <= mtu <= MOST_IP_MTU:
            yield origin.problem(
                (*path, "mtu"),
                f"must be between {LEAST_IP_MTU} and {MOST_IP_MTU} bytes on tcp",
                value=mtu,
                fix="use that of the interface, e.g. 1500 or 9000",
            )
    elif mtu not in PAYLOADS:
        yield origin.problem(
            (*path, "mtu"),
            f"must be a payload that {fabric.kind} has: {', '.join(map(str, PAYLOADS))}",
            value=mtu,
            fix="use the active_mtu of `ibv_devinfo`; 4096 needs Ethernet frames of 4200 bytes",
        )


def _hca_problems(hcas: Sequence[HcaSettings], path: KeyPath, origin: Origin) -> Iterator[Problem]:
    for device, port in _repeated((hca.device, hca.port) for hca in hcas):
        yield origin.problem(
            path, "lists a port twice", value=f"{device}:{port}", fix="list it once"
        )
    for rail in _repeated(hca.rail for hca in hcas if hca.rail is not None):
        yield origin.problem(
            path, "has two ports on one rail", value=rail, fix="give every port a rail of its own"
        )
    without = [f"{hca.device}:{hca.port}" for hca in hcas if hca.rail is None]
    if 0 < len(without) < len(hcas):
        yield origin.problem(
            path,
            "has ports with a rail and ports without",
            value=", ".join(without),
            fix="add `rail:` to these, or remove all rails",
        )


def _repeated(items: Iterable[Item]) -> list[Item]:
    return [item for item, times in Counter(items).items() if times > 1]


def domain_problems(
    pool: str, hosts: Sequence[HostSettings], model: str, origin: Origin
) -> Iterator[Problem]:
    """Hosts of a pool in more than one placement domain, where `model` takes groups of them."""
    first = hosts[0] if hosts else None
    other = next((host for host in hosts if first and host.domain != first.domain), None)
    if first is None or other is None:
        return
    yield origin.problem(
        ("pools", pool),
        f"must be one domain: {model} takes several hosts of it, and {_where(first)} but"
        f" {_where(other)}",
        value={host.name: host.domain for host in (first, other)},
        fix="give every domain a pool of its own",
    )


def _where(host: HostSettings) -> str:
    return f"{host.name} is in {host.domain}" if host.domain else f"{host.name} states no domain"
