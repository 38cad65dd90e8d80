"""Artifacts of the operator's cache as one tar archive, written while it is sent.

An environment has the same name on every host, and packages for the host's own Python (`python`,
"3.10") in the folder where that looks for them. The cache has those for the Python of the
operator's machine in the environment itself, and others in a folder beside it
(toolchain/prepare.py).
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from program.errors import InputError

ENVIRONMENTS = "envs"
SYSTEM_PYTHON = "/usr/bin/python3"
# An archive that was cut off between two files looks complete without it.
LAST = ".complete"


@dataclass(frozen=True)
class Part:
    """What a host has of an artifact: of an environment, the packages for one Python."""

    artifact: str
    python: str  # "3.10"

    @property
    def is_of_an_environment(self) -> bool:
        return self.artifact.startswith(f"{ENVIRONMENTS}/")

    @property
    def folder(self) -> str:
        """By which a host has it."""
        if self.is_of_an_environment:
            return f"{self.artifact}/lib/python{self.python}"
        return self.artifact


def size_bytes(cache: Path, part: Part) -> int:
    folder = _source(cache, part)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write(cache: Path, parts: Iterable[Part], target: IO[bytes]) -> None:
    """Links are followed, because their targets exist on the operator's machine only."""
    with tarfile.open(fileobj=target, mode="w|", dereference=True) as archive:
        for part in parts:
            source = _source(cache, part)
            if not source.is_dir():
                raise InputError(f"{source} does not exist\nfix: slipway up makes it")
            if part.is_of_an_environment:
                _add_environment(archive, part, source)
            else:
                archive.add(source, part.folder, filter=_plain)
        _add_text(archive, LAST, "")


def _source(cache: Path, part: Part) -> Path:
    here = cache / part.folder
    if here.is_dir() or not part.is_of_an_environment:
        return here
    return cache / replace(part, artifact=f"{part.artifact}-python{part.python}").folder


def _add_environment(archive: tarfile.TarFile, part: Part, source: Path) -> None:
    """A virtual environment of the host's own interpreter."""
    name = part.artifact
    archive.add(source, part.folder, filter=_plain)
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
