"""The artifacts that a host is to have, as the Pulumi program describes them
(schemas/delivery.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from program.document import JsonObject, parsing

from delivery.accelerators import Wanted, read_wanted
from delivery.containers import Image, read_image
from delivery.ssh import Place

SCHEMA = "delivery.schema.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ModelStore:
    """The disk of its own on which a host keeps weights."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Delivery:
    """`artifacts` are folders of the operator's cache, named by what they contain: a host that has
    one of this name has it whole."""

    environment: str
    host: str
    place: Place
    jump: Place | None
    folder: str  # of the host, for all environments
    python: tuple[int, int]  # of the environments among the artifacts
    artifacts: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict)  # Debian package -> a file of it
    accelerators: Wanted | None = None
    model_store: ModelStore | None = None
    image: Image | None = None  # in which the host's engines run
    boots_within_s: int = 0  # so long a machine that is new may not answer


def read_delivery(document: JsonObject) -> Delivery:
    with parsing(SCHEMA):
        place, jump = read_way(document["ssh"])
        major, minor = document["python"]
        return Delivery(
            environment=document["environment"],
            host=document["host"],
            place=place,
            jump=jump,
            folder=document["folder"],
            python=(major, minor),
            artifacts=tuple(document["artifacts"]),
            packages=document.get("packages", {}),
            accelerators=read_wanted(wanted) if (wanted := document.get("accelerators")) else None,
            model_store=ModelStore(**store) if (store := document.get("model_store")) else None,
            image=read_image(image) if (image := document.get("image")) else None,
            boots_within_s=document.get("boots_within_s", 0),
        )


def read_way(ssh: JsonObject) -> tuple[Place, Place | None]:
    """Where the host's SSH server listens, and where that of its jump host does, if there is
    one."""
    place = {key: value for key, value in ssh.items() if key != "jump"}
    jump = ssh["jump"]
    return Place(**place), Place(**jump) if jump else None
