"""Ports of host channel adapters, as `ibstat` and `ibv_devinfo -v` describe them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabric.readings.errors import CutOffError, ToolFailedError, UnknownFormError

UP_STATES = ("Active", "PORT_ACTIVE")
UP_PHYSICAL_STATES = ("LinkUp", "LINK_UP")

_IBSTAT_FAILURE = re.compile(r"^(?:ibpanic|ibstat): .*", re.MULTILINE)
_DEVINFO_FAILURE = re.compile(r"^(?:No IB devices found|Failed to .*)", re.MULTILINE)
_IBSTAT_PORT = re.compile(r"^\s*Port (\d+):\s*$", re.MULTILINE)
_DEVINFO_PORT = re.compile(r"^\s*port:\s*(\d+)\s*$", re.MULTILINE)
_VALUE = re.compile(r"^\s*([\w ]+?):\s*(.*?)\s*$")
_GID = re.compile(r"^\s*GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)(?:,\s*(.+?))?\s*$")


@dataclass(frozen=True)
class Gid:
    """An entry of a port's table. `version` is "v1" or "v2", None where the tool does not say."""

    index: int
    address: str
    version: str | None


@dataclass(frozen=True)
class HcaPort:
    """`model` is "MT4129" and the like. What a tool does not say is None."""

    device: str
    port: int
    model: str
    firmware: str
    state: str
    physical_state: str | None
    link_layer: str
    rate_gbit_per_s: float | None
    width_lanes: int | None
    active_mtu_bytes: int | None
    gids: tuple[Gid, ...] | None

    @property
    def is_up(self) -> bool:
        return self.state in UP_STATES and self.physical_state in (None, *UP_PHYSICAL_STATES)


def parse_ibstat(text: str) -> tuple[HcaPort, ...]:
    """The ports of all devices. Raises ReadingError."""
    if failure := _IBSTAT_FAILURE.search(text):
        raise ToolFailedError("ibstat", failure[0])
    devices = list(_sections(text, re.compile(r"^CA '(\S+)'\s*$", re.MULTILINE)))
    if not devices:
        raise UnknownFormError("ibstat", "no line begins with CA '")
    return tuple(
        _ibstat_port(device, int(port), {**_values(body), **_values(rest)})
        for device, body in devices
        for port, rest in _ports("ibstat", device, body, _IBSTAT_PORT)
    )


def parse_devinfo(text: str) -> tuple[HcaPort, ...]:
    """The ports of all devices. Rate, width and GIDs are in the output of `-v` only. Raises
    ReadingError."""
    if failure := _DEVINFO_FAILURE.search(text):
        raise ToolFailedError("ibv_devinfo", failure[0])
    devices = list(_sections(text, re.compile(r"^hca_id:\s*(\S+)\s*$", re.MULTILINE)))
    if not devices:
        raise UnknownFormError("ibv_devinfo", "no line begins with hca_id:")
    return tuple(
        _devinfo_port(device, int(port), {**_values(body), **_values(rest)}, _gids(rest))
        for device, body in devices
        for port, rest in _ports("ibv_devinfo", device, body, _DEVINFO_PORT)
    )


def _ibstat_port(device: str, port: int, values: Mapping[str, str]) -> HcaPort:
    try:
        return HcaPort(
            device=device,
            port=port,
            model=values["CA type"],
            firmware=values["Firmware version"],
            state=values["State"],
            physical_state=values["Physical state"],
            link_layer=values["Link layer"],
            rate_gbit_per_s=_number("ibstat", values["Rate"]),
            width_lanes=None,
            active_mtu_bytes=None,
            gids=None,
        )
    except KeyError as missing:
        raise CutOffError("ibstat", f"{missing} of {device}") from None


def _devinfo_port(
    device: str, port: int, values: Mapping[str, str], gids: tuple[Gid, ...]
) -> HcaPort:
    verbose = "active_width" in values
    try:
        width = int(_number("ibv_devinfo", values["active_width"], "X")) if verbose else None
        lane = _number("ibv_devinfo", values["active_speed"], " Gbps") if verbose else None
        rate = width * lane if width is not None and lane is not None else None
        if "effective_speed" in values:  # of rdma-core from July 2026 on
            rate = _number("ibv_devinfo", values["effective_speed"], " Gbps")
        return HcaPort(
            device=device,
            port=port,
            model=f"MT{values['vendor_part_id']}",
            firmware=values["fw_ver"],
            state=_word(values["state"]),
            physical_state=_word(values["phys_state"]) if verbose else None,
            link_layer=values["link_layer"],
            rate_gbit_per_s=rate,
            width_lanes=width,
            active_mtu_bytes=int(_number("ibv_devinfo", values["active_mtu"])),
            gids=gids if verbose else None,
        )
    except KeyError as missing:
        raise CutOffError("ibv_devinfo", f"{missing} of {device}") from None


def _sections(text: str, heading: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """What each heading names, and the text up to the next one."""
    found = list(heading.finditer(text))
    ends = [*(each.start() for each in found[1:]), len(text)]
    return ((each[1], text[each.end() : end]) for each, end in zip(found, ends, strict=False))


def _ports(tool: str, device: str, body: str, heading: re.Pattern[str]) -> list[tuple[str, str]]:
    ports = list(_sections(body, heading))
    if not ports:
        raise CutOffError(tool, f"the first port of {device}")
    return ports


def _values(text: str) -> dict[str, str]:
    """The first value of each key: those of a device stand before those of its ports."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if match := _VALUE.match(line):
            values.setdefault(match[1], match[2])
    return values


def _gids(text: str) -> tuple[Gid, ...]:
    found = (_GID.match(line) for line in text.splitlines())
    return tuple(Gid(int(each[1]), each[2], _version(each[3])) for each in found if each)


def _version(kind: str | None) -> str | None:
    return kind.rpartition(" ")[2] if kind and "RoCE" in kind else None


def _word(value: str) -> str:
    """ "PORT_ACTIVE (4)" without the number."""
    return value.partition(" ")[0]


def _number(tool: str, value: str, unit: str = "") -> float:
    match = re.match(rf"(\d+(?:\.\d+)?){unit}(?:\s*\(.*\))?$", value)
    if match is None:
        raise UnknownFormError(tool, f"{value!r} is no number{' of' if unit else ''}{unit}")
    return float(match[1])
