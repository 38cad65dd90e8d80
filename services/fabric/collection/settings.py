"""What a check is valid for: driver, firmware, kernel and the settings of interfaces and ports.

They are cheap to read, unlike the check itself, so a host reads them all the time and is checked
again when one of them has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from fabric.port_checks import LINK_LAYERS

_FILES = (
    "proc/driver/nvidia/version",
    "proc/sys/kernel/osrelease",
    "sys/module/amdgpu/version",
    "sys/class/net/{interface}/mtu",
    "sys/class/net/{interface}/address",
    "sys/class/net/{interface}/operstate",
    "sys/class/net/{interface}/speed",
    "sys/class/infiniband/*/fw_ver",
    "sys/class/infiniband/*/ports/*/state",
    "sys/class/infiniband/*/ports/*/rate",
    "sys/class/infiniband/*/ports/*/gids/*",
)


def settings(interface: str, root: Path = Path("/")) -> dict[str, str]:
    """By file. A file that cannot be read is left out, such as the speed of an interface without
    one."""
    found: dict[str, str] = {}
    for pattern in _FILES:
        for path in sorted(root.glob(pattern.format(interface=interface))):
            try:
                found[str(path.relative_to(root))] = path.read_text(errors="replace").strip()
            except OSError:
                continue
    return found


def devices(kind: str, root: Path = Path("/")) -> list[str]:
    """The adapters with an active port of the fabric's link layer. Others have no cable, or are for
    storage."""
    ports = root.glob("sys/class/infiniband/*/ports/*")
    return sorted({path.parents[1].name for path in ports if _carries(kind, path)})


def _carries(kind: str, port: Path) -> bool:
    try:
        state = (port / "state").read_text()  # "4: ACTIVE"
        layer = (port / "link_layer").read_text().strip()
    except OSError:
        return False
    return state.split()[-1:] == ["ACTIVE"] and layer == LINK_LAYERS.get(kind, layer)


def key_of(found: Mapping[str, str], planned: Mapping[str, object]) -> str:
    """Changes with any of the settings, and with what is planned."""
    content = json.dumps([dict(found), dict(planned)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]
