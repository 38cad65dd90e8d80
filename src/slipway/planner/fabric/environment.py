"""The environment of a member: what NCCL, RCCL and Gloo are told of the fabric.

One table. A variable is in it because the fabric is not what the library would find by itself, or
because the library would otherwise fall back to something slower in silence. libfabric needs none:
AWS's guide for current versions (aws/aws-ofi-nccl, doc/efa-env-var.md) leaves all of them out. Of
vLLM's own only VLLM_HOST_IP matters, an address, which the launcher of a member sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipway.plan.fabric import TCP, VERBS, FabricKind, FabricSpec
from slipway.plan.figures import Layout
from slipway.plan.platform import ModelWithoutJobs

# In a value: the launcher puts the name of the interface with the host's address here, where the
# pool states none.
INTERFACE = "{interface}"
PROCESSORS = ""  # a vendor
GPUS = ("nvidia", "amd")  # RCCL, of AMD, reads NCCL's names
KINDS: tuple[FabricKind, ...] = (*VERBS, "efa", TCP)

NCCL_GUIDE = "NVIDIA, NCCL user guide, Environment Variables"
PYTORCH_GUIDE = "PyTorch, torch.distributed, Common environment variables"
AWS_PLUGIN = "AWS, aws-ofi-nccl, src/nccl_ofi_interface_nvidia.cpp (since 1.12)"
READ = "2026-11-29"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of a member. `default` is what the table says, None where only the user sets it;
    `override` is the user's value, None without one."""

    name: str
    default: str | None
    override: str | None
    reason: str
    source: str
    date: str  # ISO 8601, when the source was read

    @property
    def value(self) -> str:
        """What the member gets."""
        return self.override if self.override is not None else self.default or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """`value` is None where the fabric's settings leave the matter to the library."""

    name: str
    kinds: tuple[FabricKind, ...]
    vendors: tuple[str, ...]
    value: Callable[[FabricSpec, Layout], str | None]
    reason: str
    source: str = NCCL_GUIDE
    date: str = READ


def _control(fabric: FabricSpec, _: Layout) -> str:
    return fabric.control_interface or INTERFACE


def _own(fabric: FabricSpec, layout: Layout) -> str:
    """Several where the fabric has several."""
    return ",".join(fabric.interfaces) or _control(fabric, layout)


def _exactly(names: Callable[[FabricSpec, Layout], str]) -> Callable[[FabricSpec, Layout], str]:
    """NCCL takes names for prefixes unless the first character is "="."""
    return lambda fabric, layout: f"={names(fabric, layout)}"


def _hcas(fabric: FabricSpec, _: Layout) -> str | None:
    ports = ",".join(f"{hca.device}:{hca.port}" for hca in fabric.hcas)
    return f"={ports}" if ports else None


def _no_crossing(fabric: FabricSpec, layout: Layout) -> str | None:
    """A member of one device uses one adapter, so that it has no rails to cross."""
    has_rails = len(fabric.hcas) > 1 and all(hca.rail is not None for hca in fabric.hcas)
    return "0" if has_rails and layout.devices > layout.pipeline else None


def _stated(key: str) -> Callable[[FabricSpec, Layout], str | None]:
    def value(fabric: FabricSpec, _: Layout) -> str | None:
        stated = getattr(fabric, key)
        return None if stated is None else str(stated)

    return value


def _always(value: str) -> Callable[[FabricSpec, Layout], str]:
    return lambda _fabric, _layout: value


def _without_gpudirect(fabric: FabricSpec, _: Layout) -> str | None:
    return None if fabric.gpudirect else "LOC"


_TABLE: tuple[_Row, ...] = (
    _Row(
        name="GLOO_SOCKET_IFNAME",
        kinds=KINDS,
        vendors=(PROCESSORS,),
        value=_own,
        reason="on processors, Gloo carries what the stages of a pipeline exchange",
        source=PYTORCH_GUIDE,
    ),
    _Row(
        name="GLOO_SOCKET_IFNAME",
        kinds=(*VERBS, "efa"),
        vendors=GPUS,
        value=_control,
        reason="vLLM's members agree over Gloo, which speaks TCP",
        source=PYTORCH_GUIDE,
    ),
    _Row(
        name="GLOO_SOCKET_IFNAME",
        kinds=(TCP,),
        vendors=GPUS,
        value=_own,
        reason="vLLM's members agree over Gloo; otherwise it takes the host name's address",
        source=PYTORCH_GUIDE,
    ),
    _Row(
        name="NCCL_SOCKET_IFNAME",
        kinds=(*VERBS, "efa"),
        vendors=GPUS,
        value=_exactly(_control),
        reason="members find each other over the control network, not over docker0",
    ),
    _Row(
        name="NCCL_SOCKET_IFNAME",
        kinds=(TCP,),
        vendors=GPUS,
        value=_exactly(_own),
        reason="tensors go over these interfaces, and over no other that a host happens to have",
    ),
    _Row(
        name="NCCL_NET",
        kinds=VERBS,
        vendors=GPUS,
        value=_always("IB"),
        reason="without a usable adapter a member fails, and does not fall back to TCP",
    ),
    _Row(
        name="NCCL_NET",
        kinds=("efa",),
        vendors=GPUS,
        value=_always("Libfabric"),
        reason="without AWS's plugin a member fails, and does not fall back to TCP",
        source=f"{NCCL_GUIDE}; the name: {AWS_PLUGIN}",
    ),
    _Row(
        name="NCCL_NET",
        kinds=(TCP,),
        vendors=GPUS,
        value=_always("Socket"),
        reason="adapters that hosts have for something else, such as storage, are not used",
    ),
    _Row(
        name="NCCL_IB_HCA",
        kinds=VERBS,
        vendors=GPUS,
        value=_hcas,
        reason="the ports of the fabric, and none for storage or management",
    ),
    _Row(
        name="NCCL_IB_GID_INDEX",
        kinds=VERBS,
        vendors=GPUS,
        value=_stated("gid_index"),
        reason="the pool states it; otherwise NCCL finds it since 2.21",
    ),
    _Row(
        name="NCCL_IB_TC",
        kinds=VERBS,
        vendors=GPUS,
        value=_stated("traffic_class"),
        reason="that of the lossless class of the switches",
    ),
    _Row(
        name="NCCL_IB_SL",
        kinds=VERBS,
        vendors=GPUS,
        value=_stated("service_level"),
        reason="that of the lossless class of the switches",
    ),
    _Row(
        name="NCCL_CROSS_NIC",
        kinds=VERBS,
        vendors=GPUS,
        value=_no_crossing,
        reason="each rail has a switch of its own, and the way between rails is slow",
    ),
    _Row(
        name="NCCL_NET_GDR_LEVEL",
        kinds=VERBS,
        vendors=GPUS,
        value=_without_gpudirect,
        reason="`gpudirect: false`: adapters do not reach the memory of devices by themselves",
    ),
)


def variables_of(model: ModelWithoutJobs, fabric: FabricSpec) -> tuple[Variable, ...]:
    """Those of a model's members; none where a replica is on one host."""
    if model.replica.nodes == 1:
        return ()
    return member_environment(fabric, vendor=model.accelerator_vendor, layout=model.layout)


def member_environment(fabric: FabricSpec, *, vendor: str, layout: Layout) -> tuple[Variable, ...]:
    """The variables of each member of a group, by name. A replica of one device has none: it has
    no members. `vendor` is "nvidia", "amd", or "" for processors."""
    if layout.devices == 1:
        return ()
    rows = {
        row.name: (row, value)
        for row in _TABLE
        if fabric.kind in row.kinds and vendor in row.vendors
        if (value := row.value(fabric, layout)) is not None
    }
    planned = [
        Variable(
            name=name,
            default=value,
            override=fabric.environment.get(name),
            reason=row.reason,
            source=row.source,
            date=row.date,
        )
        for name, (row, value) in rows.items()
    ]
    added = [
        Variable(
            name=name,
            default=None,
            override=value,
            reason="the pool's `environment` has it",
            source="the stack file",
            date="",
        )
        for name, value in fabric.environment.items()
        if name not in rows
    ]
    return tuple(sorted([*planned, *added], key=lambda variable: variable.name))
