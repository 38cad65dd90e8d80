"""What has to be equal on all hosts of a pool, where the plan does not say what it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fabric.findings import Finding
from fabric.place import Place
from fabric.port_checks import SET_MTU


def check_same_mtu(
    places: Mapping[str, Place], readings: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Of the interface over TCP, of each planned adapter over RDMA: one packet that is too large
    for the other side hangs a group. Without a majority all hosts are named."""
    by_subject: dict[str, dict[str, int]] = {}
    for host, found in readings.items():
        for subject, mtu in _mtus(places[host], found):
            by_subject.setdefault(subject, {})[host] = mtu
    for subject, mtus in by_subject.items():
        if len(mtus) > 1:
            yield from _same(places, subject, mtus)


def _mtus(place: Place, readings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Those that the plan leaves open."""
    planned = place.planned
    interface = readings.get("ip_link")
    if planned.kind == "tcp":
        if interface is not None and planned.interface_mtu_bytes is None:
            # Hosts may name theirs differently.
            yield planned.interface or interface.name, interface.mtu_bytes
        return
    for port in readings.get("ibv_devinfo") or ():
        known = port.is_up and port.active_mtu_bytes is not None
        if known and port.device in planned.devices and planned.mtu_bytes is None:
            yield port.device, port.active_mtu_bytes


def _same(places: Mapping[str, Place], subject: str, mtus: Mapping[str, int]) -> Iterator[Finding]:
    (usual, most), *others = Counter(mtus.values()).most_common(2)
    tie = bool(others) and others[0][1] == most
    for host, mtu in mtus.items():
        if not others or (mtu == usual and not tie):
            said = f"{subject}: MTU {mtu}, as on most hosts of the pool"
            yield places[host].passes("mtu", said, subject=subject)
        else:
            rest = ", ".join(str(each) for each in sorted(set(mtus.values()) - {mtu}))
            said = f"{subject}: MTU {mtu}, others in the pool have {rest}"
            figures = {"subject": subject, "figure": mtu, "unit": "bytes"}
            yield places[host].fails("mtu", said, SET_MTU, **figures)
