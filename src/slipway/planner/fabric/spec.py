"""A pool's fabric in the plan, from its settings."""

from __future__ import annotations

from typing import Any

from slipway.config.catalog import Instance
from slipway.config.fabric import InterfaceSettings, LocalFabric, MemberSettings, MetalFabric
from slipway.plan.fabric import VERBS, FabricSpec, Hca


def metal_fabric(fabric: MetalFabric, accelerators: int) -> FabricSpec:
    """`accelerators` is the number that a host has."""
    reaches_devices = fabric.kind in VERBS and accelerators > 0
    return FabricSpec(
        kind=fabric.kind,
        networks=fabric.networks,
        hcas=tuple(Hca(device=hca.device, port=hca.port, rail=hca.rail) for hca in fabric.hcas),
        mtu=fabric.mtu,
        gid_index=fabric.gid_index,
        traffic_class=fabric.traffic_class,
        service_level=fabric.service_level,
        gpudirect=reaches_devices if fabric.gpudirect is None else fabric.gpudirect,
        **_interfaces(fabric),
        **_members(fabric),
    )


def local_fabric(fabric: LocalFabric) -> FabricSpec:
    return FabricSpec(kind=fabric.kind, **_interfaces(fabric), **_members(fabric))


def aws_fabric(fabric: MemberSettings, instance: Instance) -> FabricSpec:
    """EFA on every instance that has it."""
    return FabricSpec(kind="efa" if instance.efa_interfaces else "tcp", **_members(fabric))


def _interfaces(fabric: InterfaceSettings) -> dict[str, Any]:
    return {
        "control_interface": fabric.control_interface or "",
        "interfaces": fabric.interfaces,
    }


def _members(fabric: MemberSettings) -> dict[str, Any]:
    return {
        "allow_tcp": fabric.allow_tcp,
        "member_silence_s": fabric.member_silence_s,
        "environment": dict(sorted(fabric.environment.items())),
    }
