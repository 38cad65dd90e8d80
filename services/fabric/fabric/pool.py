"""The pools whose hosts are checked (schemas/fabric-pools.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from program.document import JsonObject, parsing

SCHEMA = "fabric-pools.schema.json"
VERSION = 1
NO_DEVICE = "an adapter"  # of hosts without any, to be named as missing


@dataclass(frozen=True)
class Pool:
    """`planned` and `thresholds` are those of a check's document; without an interface in them TCP
    goes over that of the host's own address. `job` checks each of the pool's hosts.

    `gaps_admit`: whether a host takes members though something could not be checked. `measures`:
    whether hosts measure with each other without being asked to."""

    name: str
    job: str
    planned: JsonObject
    thresholds: JsonObject
    gaps_admit: bool
    measures: bool


def completed(planned: JsonObject, interface: str, devices: Sequence[str]) -> JsonObject:
    """What is planned, with what a host has where the plan leaves it to drivers and libraries: the
    interface of its own address, and every adapter with an active port of the fabric."""
    if planned["kind"] == "tcp":
        return {"interface": interface, **planned}
    return {"devices": list(devices) or [NO_DEVICE], **planned}


def read_pools(document: Mapping[str, Any]) -> list[Pool]:
    """Raises InputError for a document that does not follow the schema."""
    with parsing(SCHEMA):
        return [Pool(name=name, **each) for name, each in document["pools"].items()]
