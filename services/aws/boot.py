"""Brings what an elastic node runs from the environment's bucket, and hands over to it.

    /usr/bin/python3 boot.py FILE

Runs at every boot, as a unit that systemd starts again when it fails. FILE is written from the
user data: JSON with schema_version, region, bucket, and the key and SHA-256 of the pool's boot
document (schemas/boot.schema.json). Artifacts are named by what they contain: those that are there
are not fetched again, and each appears whole. Then this process becomes `node.py` of the document's
bundle. Exit codes: 1 something could not be fetched, 2 a wrong file. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import TextIO

from instance import artifacts, metadata
from instance.objects import Bucket
from instance.refusal import RefusedError

SCHEMA_VERSION = 1
STATE = Path("/var/lib/slipway-boot")
LARGEST_DOCUMENT = 1 << 20


class WrongDocumentError(Exception):
    """The boot document is not the one that the user data names, or cannot be used."""


def main(arguments: list[str]) -> int:
    try:
        (file,) = arguments
        wanted = json.loads(Path(file).read_text())
        if wanted["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version is not {SCHEMA_VERSION}")
        place, key, digest = (wanted["bucket"], wanted["region"]), wanted["key"], wanted["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"wrong file: {error!r}", sys.stderr)
        return 2
    try:
        command = booted(Bucket(*place, metadata.credentials()), key, digest)
    except (
        OSError,
        RefusedError,
        WrongDocumentError,
        artifacts.IncompleteError,
        tarfile.TarError,
    ) as error:
        say(str(error), sys.stderr)
        return 1
    os.execv(command[0], command)  # noqa: S606
    return 1  # never: this process has become another program


def booted(bucket: Bucket, key: str, digest: str) -> list[str]:
    """The command that makes this instance a node, once everything that it needs is here."""
    content = document(bucket, key, digest)
    boot = json.loads(content)
    folder = Path(boot["folder"])
    for artifact in boot["artifacts"]:
        if artifacts.bring(artifact, boot["prefix"], folder, bucket):
            say(f"{artifact} is here", sys.stdout)
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = STATE / "document.json"
    kept.write_bytes(content)
    return [sys.executable, f"{folder}/bundles/{boot['bundle']}/node.py", str(kept)]


def document(bucket: Bucket, key: str, digest: str) -> bytes:
    """The boot document, which is the very one that the user data names."""
    with bucket.opened(key) as answer:
        content = answer.read(LARGEST_DOCUMENT)
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise WrongDocumentError(f"{key} has the SHA-256 {found}, and the user data says {digest}")
    return content


def say(line: str, where: TextIO) -> None:
    """A line for the journal."""
    where.write(f"{line}\n")
    where.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
