"""The GIDs of a host's ports, as the script `show_gids` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.readings.errors import UnknownFormError
from fabric.readings.ports import Gid

_TOOL = "show_gids"


@dataclass(frozen=True)
class GidTable:
    """By device; a device without GIDs is not in it."""

    gids: Mapping[str, tuple[Gid, ...]]


def parse_show_gids(text: str) -> GidTable:
    """Raises ReadingError."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines or lines[0][:4] != ["DEV", "PORT", "INDEX", "GID"]:
        raise UnknownFormError(_TOOL, "the first line is not DEV PORT INDEX GID")
    found: dict[str, tuple[Gid, ...]] = {}
    for line in lines[1:]:
        if line[0].startswith(("---", "n_gids_found")):
            continue
        # An IPv4 address stands between GID and version only where there is one.
        if len(line) not in (6, 7) or not line[2].isdigit() or line[-2] not in ("v1", "v2"):
            raise UnknownFormError(_TOOL, f"a line is {' '.join(line)}")
        found[line[0]] = (*found.get(line[0], ()), Gid(int(line[2]), line[3], line[-2]))
    return GidTable(found)
