"""A snapshot of Consul or Nomad: its API, and an archive with the checksums of its parts."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from pathlib import Path

from program.errors import HostError

PATHS = {"consul": "/v1/snapshot", "nomad": "/v1/operator/snapshot"}
TIMEOUT_S = 120  # until the servers have written gigabytes
CHECKSUMS = "SHA256SUMS"
BLOCK_BYTES = 1 << 20


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
