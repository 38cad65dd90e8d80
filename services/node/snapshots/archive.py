"""The files of snapshots: <system>-<time>.snap, archives with the checksums of their parts."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from pathlib import Path

from program.errors import HostError

CHECKSUMS = "SHA256SUMS"
SYSTEMS = ("consul", "nomad")
PARTIAL = ".partial"
BLOCK_BYTES = 1 << 20


def snapshot_file(folder: Path, system: str, taken: str) -> Path:
    """`taken` is a time such as 20261125T103000Z, so that files sort by age."""
    return folder / f"{system}-{taken}.snap"


def of_system(folder: Path, system: str) -> list[Path]:
    """The snapshots of Consul or of Nomad, oldest first."""
    return sorted(folder.glob(f"{system}-*.snap"))


def complete(partial: Path) -> Path:
    """Give a snapshot its name, once it is verified and on the disk. Raises HostError if it is
    damaged."""
    verify(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    return partial.replace(partial.with_suffix(""))


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` snapshots of each system, and what a killed run has left."""
    for system in SYSTEMS:
        for old in of_system(folder, system)[:-keep]:
            old.unlink()
    for partial in folder.glob(f"*{PARTIAL}"):
        partial.unlink()


def verify(file: Path) -> None:
    """Raises HostError if a part is missing or does not have its checksum."""
    try:
        with tarfile.open(file, "r:gz") as archive:
            found = {part.name: _digest(archive, part) for part in archive.getmembers()}
            listed = archive.extractfile(CHECKSUMS)
            assert listed is not None  # noqa: S101  (extractfile raised KeyError otherwise)
            sums = dict(reversed(line.split()) for line in listed.read().decode().splitlines())
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError, zlib.error) as error:
        raise HostError(f"{file} is not a snapshot, or it is damaged: {error}") from None
    damaged = [name for name, digest in sums.items() if found.get(name) != digest]
    if damaged or not sums:
        raise HostError(f"{file} is damaged: {', '.join(damaged) or 'it has no checksums'}")


def _digest(archive: tarfile.TarFile, part: tarfile.TarInfo) -> str:
    digest, content = hashlib.sha256(), archive.extractfile(part)
    while content is not None and (block := content.read(BLOCK_BYTES)):
        digest.update(block)
    return digest.hexdigest()
