"""Artifacts of the operator's cache as one tar archive, written while it is sent."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from program.errors import InputError

ENVIRONMENTS = "envs"
SYSTEM_PYTHON = "/usr/bin/python3"
# An archive that was cut off between two files looks complete without it.
LAST = ".complete"


def size_bytes(cache: Path, artifact: str) -> int:
    return sum(path.stat().st_size for path in (cache / artifact).rglob("*") if path.is_file())


def write(cache: Path, artifacts: Iterable[str], target: IO[bytes]) -> None:
    """Links are followed, because their targets exist on the operator's machine only."""
    with tarfile.open(fileobj=target, mode="w|", dereference=True) as archive:
        for artifact in artifacts:
            if not (cache / artifact).is_dir():
                raise InputError(f"{cache / artifact} does not exist\nfix: slipway tools makes it")
            if artifact.startswith(f"{ENVIRONMENTS}/"):
                _add_environment(archive, cache, artifact)
            else:
                archive.add(cache / artifact, artifact, filter=_plain)
        _add_text(archive, LAST, "")


def _add_environment(archive: tarfile.TarFile, cache: Path, name: str) -> None:
    """A virtual environment of the host's own interpreter, with the same packages."""
    packages = next((cache / name).glob("lib/python3.*/site-packages"))
    inside = packages.relative_to(cache)
    archive.add(packages, str(inside), filter=_plain)
    _add_text(
        archive, f"{name}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n"
    )
    # Triton's Python backend takes the packages of the first `python3` on PATH.
    for command, target in (("python", SYSTEM_PYTHON), ("python3", "python")):
        link = tarfile.TarInfo(f"{name}/bin/{command}")
        link.type, link.linkname = tarfile.SYMTYPE, target
        archive.addfile(link)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Readable by everybody, written by root only: services of all users run from these files."""
    if entry.name.endswith(("/__pycache__", ".pyc")):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
