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
from pathlib import Path
from typing import IO

from program.errors import InputError

ENVIRONMENTS = "envs"
SYSTEM_PYTHON = "/usr/bin/python3"
# An archive that was cut off between two files looks complete without it.
LAST = ".complete"


def part(artifact: str, python: str) -> str:
    """The folder by which a host has the artifact: of an environment, one that its Python uses."""
    return f"{artifact}/lib/python{python}" if _is_environment(artifact) else artifact


def size_bytes(cache: Path, artifact: str, python: str) -> int:
    folder = _source(cache, artifact, python)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write(cache: Path, artifacts: Iterable[str], python: str, target: IO[bytes]) -> None:
    """Links are followed, because their targets exist on the operator's machine only."""
    with tarfile.open(fileobj=target, mode="w|", dereference=True) as archive:
        for artifact in artifacts:
            source = _source(cache, artifact, python)
            if not source.is_dir():
                raise InputError(f"{source} does not exist\nfix: slipway up makes it")
            if _is_environment(artifact):
                _add_environment(archive, artifact, part(artifact, python), source)
            else:
                archive.add(source, artifact, filter=_plain)
        _add_text(archive, LAST, "")


def _is_environment(artifact: str) -> bool:
    return artifact.startswith(f"{ENVIRONMENTS}/")


def _source(cache: Path, artifact: str, python: str) -> Path:
    here = cache / part(artifact, python)
    if here.is_dir() or not _is_environment(artifact):
        return here
    return cache / part(f"{artifact}-python{python}", python)


def _add_environment(archive: tarfile.TarFile, name: str, inside: str, source: Path) -> None:
    """A virtual environment of the host's own interpreter."""
    archive.add(source, inside, filter=_plain)
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
