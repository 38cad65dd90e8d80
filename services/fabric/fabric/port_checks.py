"""Ports of adapters against the plan: up, rate, width, MTU, GID; and firmware within a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fabric.findings import Finding
from fabric.place import Figure, Place
from fabric.readings.gids import GidTable
from fabric.readings.ports import Gid, HcaPort

CABLE = "look at the cable, the transceiver and the switch's port"
SET_MTU = "give the host's interface and the switch's port the planned MTU, or plan another one"
SET_GID = "give the interface its address, or plan the index that has it (show_gids lists them)"
SET_LAYER = "set the port's type (mlxconfig, LINK_TYPE_P1) and boot again, or plan the other fabric"
UPDATE = "install the same firmware on all hosts of the pool (mlxfwmanager, or the vendor's tool)"

# By the kind of a fabric; an EFA has neither.
LINK_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}


def check_ports(place: Place, ports: Sequence[HcaPort]) -> Iterator[Finding]:
    """The planned devices only: others may be for storage or control."""
    known = {(port.device, port.port): port for port in ports}
    for device in place.planned.devices:
        mine = [port for (name, _), port in known.items() if name == device]
        # An adapter may have a second port without a cable, or with the other link layer.
        used = [port for port in mine if port.is_up and port.link_layer == _layer(place, port)]
        for port in used or mine[:1]:
            yield from _check_port(place, port)
        if not mine:
            found = ", ".join(dict.fromkeys(name for name, _ in known)) or "none"
            yield place.fails(
                "link", f"{device} is missing; there are {found}", CABLE, subject=device
            )


def _layer(place: Place, port: HcaPort) -> str:
    return LINK_LAYERS.get(place.planned.kind, port.link_layer)


def _check_port(place: Place, port: HcaPort) -> Iterator[Finding]:
    planned, device = place.planned, port.device
    state = f"{device}: {port.state}" + (f", {port.physical_state}" if port.physical_state else "")
    if not port.is_up:
        fix = CABLE
        if port.physical_state in ("LinkUp", "LINK_UP"):
            fix = "start a subnet manager, or look at why it does not activate this port"
        yield place.fails("link", state, fix, subject=device)
        return  # a port that is down tells rates and sizes that mean nothing
    layer = _layer(place, port)
    if port.link_layer != layer:
        said = f"{device}: its link layer is {port.link_layer}, planned is {layer}"
        yield place.fails("link", said, SET_LAYER, subject=device)
        return
    yield place.passes("link", state, subject=device)
    if port.rate_gbit_per_s is not None and planned.rate_gbit_per_s is not None:
        yield place.equal(
            "rate",
            device,
            Figure("rate", port.rate_gbit_per_s, "Gbit/s"),
            planned.rate_gbit_per_s,
            CABLE,
        )
    if port.width_lanes is not None and planned.width_lanes is not None:
        yield place.equal(
            "width", device, Figure("width", port.width_lanes, "lanes"), planned.width_lanes, CABLE
        )
    if port.active_mtu_bytes is not None and planned.mtu_bytes is not None:
        yield place.equal(
            "mtu", device, Figure("MTU", port.active_mtu_bytes, "bytes"), planned.mtu_bytes, SET_MTU
        )
    if port.gids is not None:
        yield from _check_gid(place, device, port.gids)


def check_gid_table(place: Place, table: GidTable) -> Iterator[Finding]:
    for device in place.planned.devices:
        yield from _check_gid(place, device, table.gids.get(device, ()))


def _check_gid(place: Place, device: str, gids: Sequence[Gid]) -> Iterator[Finding]:
    """RoCE needs the planned index, and version 2, which alone is routed."""
    index = place.planned.gid_index
    if index is None or place.planned.kind != "roce":
        return
    gid = next((each for each in gids if each.index == index), None)
    if gid is None:
        known = ", ".join(str(each.index) for each in gids) or "none"
        said = f"{device}: no GID at index {index}; there are {known}"
        yield place.fails("gid", said, SET_GID, subject=device)
    elif gid.version == "v1":
        said = f"{device}: GID {index} is RoCE v1, which routers do not forward"
        yield place.fails("gid", said, SET_GID, subject=device)
    else:
        yield place.passes("gid", f"{device}: GID {index} is {gid.address}", subject=device)


def check_firmware(
    places: Mapping[str, Place], ports: Mapping[str, Sequence[HcaPort]]
) -> Iterator[Finding]:
    """Each model of adapter has one firmware in a pool. Without a majority all are named."""
    versions: dict[str, Counter[str]] = {}
    planned = [
        (host, port)
        for host, found in ports.items()
        for port in found
        if port.device in places[host].planned.devices
    ]
    for _, port in planned:
        versions.setdefault(port.model, Counter())[port.firmware] += 1
    for host, port in planned:
        known = versions[port.model]
        (usual, most), *others = known.most_common(2)
        said = f"{port.device}: firmware {port.firmware} of {port.model}"
        tie = bool(others) and others[0][1] == most
        if len(known) == 1 or (port.firmware == usual and not tie):
            yield places[host].passes("firmware", said, subject=port.device)
        else:
            rest = ", ".join(sorted(set(known) - {port.firmware}))
            said = f"{said}, others in the pool have {rest}"
            yield places[host].fails("firmware", said, UPDATE, subject=port.device)
