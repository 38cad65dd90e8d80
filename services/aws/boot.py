"""Brings what an elastic node runs from the environment's bucket, and hands over to it.

    /usr/bin/python3 boot.py FILE

Runs at every boot, as a unit that systemd starts again until it succeeds. FILE is written from the
user data: JSON with schema_version, region, bucket, and the key and SHA-256 of the pool's boot
document (schemas/boot.schema.json). Artifacts are named by what they contain: those that are there
are not fetched again, and each appears whole. Then this process becomes `join.py` of the document's
bundle. Exit codes: 1 something could not be fetched, 2 a wrong file. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, TextIO

from instance import metadata
from instance.objects import Bucket
from instance.refusal import RefusedError

SCHEMA_VERSION = 1
STATE = Path("/var/lib/slipway-boot")
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
ENGINES_NEED = f" (this image has Python {PYTHON}; engines need an image with Python 3.11)"
ENVIRONMENTS = "envs/"  # have packages for each Python (services/operator/publish.py)
LAST = ".complete"  # of an archive that was not cut off
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
    except (OSError, RefusedError, WrongDocumentError, tarfile.TarError) as error:
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
        bring(artifact, boot["prefix"], folder, bucket)
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = STATE / "document.json"
    kept.write_bytes(content)
    return [sys.executable, f"{folder}/bundles/{boot['bundle']}/join.py", str(kept)]


def document(bucket: Bucket, key: str, digest: str) -> bytes:
    """The boot document, which is the very one that the user data names."""
    with bucket.opened(key) as answer:
        content = answer.read(LARGEST_DOCUMENT)
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise WrongDocumentError(f"{key} has the SHA-256 {found}, and the user data says {digest}")
    return content


def bring(artifact: str, prefix: str, folder: Path, bucket: Bucket) -> None:
    """The artifact's folder below `folder`, unless it is there already."""
    of_python = artifact.startswith(ENVIRONMENTS)
    part = f"{artifact}/lib/python{PYTHON}" if of_python else artifact
    if (folder / part).is_dir():
        return
    key = f"{prefix}/{artifact}/{PYTHON}.tar" if of_python else f"{prefix}/{artifact}.tar"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-boot-", dir=folder))
    try:
        with bucket.opened(key) as answer:
            extract(answer, partial)
        if not (partial / LAST).exists():
            raise WrongDocumentError(f"{key} has ended too early")
        target = folder / artifact
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.sync()
        if target.exists():  # with packages for another Python than this image's
            shutil.rmtree(target)
        (partial / artifact).rename(target)
    except RefusedError as error:
        raise RefusedError(f"{error}{ENGINES_NEED if of_python else ''}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    say(f"{artifact} is here", sys.stdout)


def extract(stream: Any, target: Path) -> None:
    """Newer versions of Python want to be told what an archive may contain."""
    safe: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(target, **safe)  # noqa: S202  (written by the operator alone)


def say(line: str, where: TextIO) -> None:
    """A line for the journal."""
    where.write(f"{line}\n")
    where.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
