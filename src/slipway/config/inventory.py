"""A file with the machines of an environment, for those with many: slipway:inventory names it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from .base import ResourceName, Settings
from .document import read_document
from .errors import raise_if_any
from .hosts import HostSettings, ListedHost
from .validation import validated


class InventoryHost(HostSettings):
    """A machine of a pool, or with `role: server` of the servers."""

    EXAMPLE = "{name: rack1-3, address: 10.50.0.13, pool: cpu}"
    role: Literal["server"] | None = None
    pool: ResourceName | None = None


class InventorySettings(Settings):
    hosts: Annotated[tuple[InventoryHost, ...], Field(strict=False, min_length=1)]


def read_inventory(path: Path, *, source: str) -> tuple[ListedHost, ...]:
    """Read a YAML or JSON file: `hosts:`, with one entry for each.

    Raises ConfigError if the file is missing or broken, or if a host has not exactly one place.
    """
    document = read_document(path, source=source)
    settings = validated(InventorySettings, document.values, document.origin)
    raise_if_any(
        [
            document.origin.problem(
                ("hosts", index),
                "must have a `pool` or `role: server`, one of the two",
                value=host.name,
                fix="e.g. `pool: cpu`",
            )
            for index, host in enumerate(settings.hosts)
            if (host.pool is None) == (host.role is None)
        ]
    )
    return tuple(
        ListedHost(host=host, pool=host.pool, origin=document.origin, path=("hosts", index))
        for index, host in enumerate(settings.hosts)
    )
