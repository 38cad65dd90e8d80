"""A host that is to be admitted, as the Pulumi program describes it
(schemas/admission.schema.json)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from delivery.ssh import Place
from program.document import JsonObject, parsing
from program.folders import Folders

SCHEMA = "admission.schema.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Admission:
    """`folders` are the host's; `nomad` and `consul` are addresses of servers."""

    host: str
    pool: str
    ttl_s: int
    nomad: str
    consul: str
    place: Place
    jump: Place | None
    folders: Folders


def read_admission(document: JsonObject) -> Admission:
    with parsing(SCHEMA):
        ssh = dict(document["ssh"])
        jump = ssh.pop("jump")
        run, scratch = Path(document["run"]), Path(document["scratch"])
        return Admission(
            host=document["host"],
            pool=document["pool"],
            ttl_s=document["ttl_s"],
            nomad=document["nomad"],
            consul=document["consul"],
            place=Place(**ssh),
            jump=Place(**jump) if jump else None,
            folders=Folders(run=run, cache=run, scratch=scratch),
        )
