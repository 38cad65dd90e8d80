"""A pool's boot document (schemas/boot.schema.json), as far as a node needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.document import parsing
from program.folders import Folders

SCHEMA = "boot.schema.json"


@dataclass(frozen=True)
class Group:
    """The Auto Scaling group, and its lifecycle hooks: the one that waits until a new node has
    joined, and the one that waits until a node has left, each for `heartbeat_s` at a time."""

    name: str
    joined: str
    left: str
    heartbeat_s: int


@dataclass(frozen=True)
class ModelStore:
    """Where the instance's own disks are mounted, and what they hold at least."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Boot:
    """`node` is the document of the host's agents with @host@ and @address@ in it; `introducers`
    are the addresses that are asked for an introduction, `sts` is that of AWS for which the request
    is signed."""

    file: str  # in which it is
    environment: str
    pool: str
    region: str
    bucket: str
    prefix: str
    running: str  # the object that lists what jobs in the pool run
    secret: str
    sts: str
    introducers: tuple[str, ...]
    introducers_name: str
    folders: Folders
    agents: str  # the program that applies `node`
    node: Mapping[str, Any]
    group: Group
    model_store: ModelStore | None = None  # None where weights are kept elsewhere


def read_boot(file: Path) -> Boot:
    with parsing(SCHEMA):
        document = json.loads(file.read_text())
        folders = document["folders"]
        return Boot(
            file=str(file),
            environment=document["environment"],
            pool=document["pool"],
            region=document["region"],
            bucket=document["bucket"],
            prefix=document["prefix"],
            running=document["running"],
            secret=document["secret"],
            sts=document["sts"],
            introducers=tuple(document["introducers"]["addresses"]),
            introducers_name=document["introducers"]["server_name"],
            folders=Folders(
                run=Path(folders["run"]),
                cache=Path(document["folder"]),
                scratch=Path(folders["scratch"]),
            ),
            agents=f"{document['folder']}/bundles/{document['agents']}/agents.py",
            node=document["node"],
            group=Group(**document["group"]),
            model_store=ModelStore(**store) if (store := document.get("model_store")) else None,
        )


def node_document(boot: Boot, host: str, address: str) -> dict[str, Any]:
    """The document for services/host, of this host. Names and addresses need no quoting in JSON."""
    text = json.dumps(boot.node, sort_keys=True)
    found: dict[str, Any] = json.loads(text.replace("@host@", host).replace("@address@", address))
    return found
