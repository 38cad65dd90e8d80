"""Network interfaces, as `ethtool NAME` and `ip -s link show NAME` describe them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.readings.errors import AbsentError, CutOffError, ToolFailedError, UnknownFormError


@dataclass(frozen=True)
class LinkSpeed:
    """`rate_gbit_per_s` is None where the driver does not know it, as in many virtual machines."""

    interface: str
    rate_gbit_per_s: float | None
    has_link: bool


@dataclass(frozen=True)
class Interface:
    name: str
    mtu_bytes: int
    is_up: bool


def parse_ethtool(text: str) -> LinkSpeed:
    """Raises ReadingError."""
    if said := re.search(r"^(?:netlink error|Cannot get device settings).*$", text, re.MULTILINE):
        raise ToolFailedError("ethtool", said[0])
    name = re.match(r"Settings for (\S+):", text)
    if name is None:
        raise UnknownFormError("ethtool", "the first line does not begin with Settings for")
    speed = re.search(r"^\s*Speed: (?:(\d+)Mb/s|Unknown!.*)$", text, re.MULTILINE)
    link = re.search(r"^\s*Link detected: (yes|no)\b", text, re.MULTILINE)
    if speed is None or link is None:
        raise CutOffError("ethtool", "the speed" if speed is None else "the link's state")
    rate = int(speed[1]) / 1000 if speed[1] else None
    return LinkSpeed(name[1], rate, link[1] == "yes")


def parse_ip_link(text: str) -> Interface:
    """Of one interface. Raises ReadingError."""
    if said := re.search(r'^(?:Device ".*" does not exist|Cannot find device).*$', text, re.M):
        raise AbsentError("ip_link", said[0])
    match = re.match(r"\d+: ([^:@\s]+)(?:@\S+)?: <([^>]*)> mtu (\d+)\s", text)
    if match is None:
        raise UnknownFormError("ip_link", "the first line has no name, flags and mtu")
    return Interface(match[1], int(match[3]), "LOWER_UP" in match[2].split(","))
