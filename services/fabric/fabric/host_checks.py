"""Settings of a host against what a fabric needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.findings import Finding
from fabric.place import Figure, Place
from fabric.port_checks import CABLE, SET_MTU
from fabric.readings.interfaces import Interface, LinkSpeed
from fabric.readings.limits import LockedMemory
from fabric.readings.modules import PEER_MEMORY, Kernel, Modules, NvidiaDriver
from fabric.readings.pcie import AccessControl

# Linux exports memory of peers to RDMA from 5.12 on; NVIDIA's driver does so with its open kernel
# modules (docs.nvidia.com, GPU Operator, GPUDirect RDMA, read 2026-11-29).
DMA_BUF = Kernel(5, 12)


def check_access_control(place: Place, found: Sequence[AccessControl]) -> Iterator[Finding]:
    """NCCL user guide, troubleshooting, "PCI Access Control Services": what is on sends traffic
    between cards and accelerators through the processor."""
    on = [each for each in found if each.is_on]
    if not on:
        yield place.passes("acs", f"access control services are off, of {len(found)} devices")
        return
    named = [each.address for each in on if each.address]
    where = ", ".join(named) if named else f"{len(on)} of {len(found)} devices"
    yield place.fails(
        "acs",
        f"access control services are on at {where}",
        "turn ACS off in the firmware's settings, or with setpci at every boot",
        figure=len(on),
        threshold=0,
        unit="devices",
    )


def check_locked_memory(place: Place, limit: LockedMemory) -> Iterator[Finding]:
    if limit.most_kib is None:
        yield place.passes("locked_memory", "locked memory is unlimited")
        return
    yield place.fails(
        "locked_memory",
        f"a process may lock {limit.most_kib} KiB; adapters need all that they are given",
        "set LimitMEMLOCK=infinity in the agent's unit, or memlock unlimited in limits.conf",
        figure=limit.most_kib,
        unit="KiB",
    )


def check_peer_memory(
    place: Place, modules: Modules | None, driver: NvidiaDriver | None, kernel: Kernel | None
) -> Iterator[Finding]:
    """Where GPUDirect is planned: a module for peers' memory, or dma-buf."""
    if not place.planned.gpudirect:
        return
    loaded = sorted(modules.names.intersection(PEER_MEMORY)) if modules else []
    if loaded:
        yield place.passes("peer_memory", f"{loaded[0]} is loaded")
    elif driver and driver.is_open and kernel and kernel >= DMA_BUF:
        said = (
            f"dma-buf: open kernel modules {driver.version} on Linux {kernel.major}.{kernel.minor}"
        )
        yield place.passes("peer_memory", said)
    elif modules:
        yield place.fails(
            "peer_memory",
            f"{PEER_MEMORY[0]} is not loaded, and dma-buf was not found",
            f"modprobe {PEER_MEMORY[0].replace('_', '-')}, and name it in /etc/modules-load.d",
        )


def check_speed(place: Place, link: LinkSpeed) -> Iterator[Finding]:
    name = link.interface
    if not link.has_link:
        yield place.fails("link", f"{name}: link detected: no", CABLE, subject=name)
    elif link.rate_gbit_per_s is None:
        yield place.gap(
            "rate",
            f"{name}: its driver does not know the rate",
            "compare the measured bandwidth, as on virtual machines",
            subject=name,
        )
    elif place.planned.rate_gbit_per_s is not None:
        rate = Figure("rate", link.rate_gbit_per_s, "Gbit/s")
        yield place.equal("rate", name, rate, place.planned.rate_gbit_per_s, CABLE)


def check_interface(place: Place, interface: Interface) -> Iterator[Finding]:
    name, planned = interface.name, place.planned.interface_mtu_bytes
    if interface.is_up:
        yield place.passes("link", f"{name}: is up", subject=name)
    else:
        yield place.fails("link", f"{name}: is down", CABLE, subject=name)
    if planned is not None:
        yield place.equal(
            "mtu", name, Figure("MTU", interface.mtu_bytes, "bytes"), planned, SET_MTU
        )
