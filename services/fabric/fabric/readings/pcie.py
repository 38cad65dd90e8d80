"""Access control services of PCIe bridges, as `lspci -vvv` shows them to root."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.readings.errors import CutOffError, UnknownFormError

_TOOL = "lspci"
_DEVICE = re.compile(r"^((?:[0-9a-f]{4,}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s")
_CONTROL = re.compile(r"^\s*ACSCtl:\s*(.+)$")


@dataclass(frozen=True)
class AccessControl:
    """`is_on` as NCCL's documentation tells it: "SrcValid+". The address is None in lines that grep
    has picked."""

    address: str | None
    is_on: bool


def parse_lspci(text: str) -> tuple[AccessControl, ...]:
    """Of every device that has access control services; empty if none has. Raises ReadingError."""
    if not text.strip():
        raise CutOffError(_TOOL, "its first device")
    found: list[AccessControl] = []
    address: str | None = None
    for line in text.splitlines():
        if device := _DEVICE.match(line):
            address = device[1]
        elif control := _CONTROL.match(line):
            if "SrcValid" not in control[1]:
                raise UnknownFormError(_TOOL, f"ACSCtl is {control[1]}")
            found.append(AccessControl(address, "SrcValid+" in control[1]))
    if not found and "access denied" in text:
        raise UnknownFormError(_TOOL, "capabilities are <access denied>, as without root")
    if not found and address is None:
        raise UnknownFormError(_TOOL, "no line begins with a device's address")
    return tuple(found)
