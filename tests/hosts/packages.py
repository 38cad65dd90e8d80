"""The files that Debian packages add to this machine, in an archive. Nothing is installed on it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

INSTALL = Path(__file__).with_name("install.sh")
STATUS = Path("/var/lib/dpkg/status")  # the archive is only good for a machine with these packages


def archive_with(packages: Sequence[str], cache: Path) -> Path:
    """The archive; made once. Raises CalledProcessError, whose stderr has apt's reason."""
    meaning = hashlib.sha256(STATUS.read_bytes())
    for part in (INSTALL.read_bytes(), *(name.encode() for name in sorted(packages))):
        meaning.update(part + b"\0")
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"packages-{meaning.hexdigest()[:12]}.tar"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _install(packages, archive)
    return archive


def unpacked(packages: Sequence[str], cache: Path, wanted: tuple[str, ...]) -> Path:
    """The folder with the archive's members whose paths begin so, such as "./usr/"; made once.
    Raises CalledProcessError, whose stderr has apt's reason."""
    archive = archive_with(packages, cache)
    folder = archive.with_suffix(".unpacked")
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(archive) as packed:
                members = [each for each in packed if each.name.startswith(wanted)]
                packed.extractall(partial, members, filter="fully_trusted")
            partial.rename(folder)
    return folder


def _install(packages: Sequence[str], archive: Path) -> None:
    place = archive.with_name("installing")
    place.mkdir(exist_ok=True)
    script = ["sh", str(INSTALL), str(place), str(archive), *packages]
    try:
        subprocess.run(
            ["unshare", "--mount", *script], check=True, capture_output=True, text=True, timeout=300
        )
    finally:
        place.rmdir()
