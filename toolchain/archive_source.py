"""Vendors' release archives, from the vendor or a mirror. Nothing is unpacked before its SHA-256 is
the one that `archive_proof` found."""

from __future__ import annotations

import fnmatch
import hashlib
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx

from toolchain import download
from toolchain.archive_proof import Proof, address, known_sha256, proof_of
from toolchain.download import NO_ARCHIVES, shown
from toolchain.errors import ToolchainError, UnavailableError
from toolchain.pins import ArchivePin, ToolPin
from toolchain.progress import Step
from toolchain.settings import Settings
from toolchain.sources import Attempt, Obtained, OtherVersionError, check_versions
from toolchain.store import Provenance

_MIB = 1024 * 1024


def key(sha256: str) -> str:
    return sha256[:12]


def fetch(attempt: Attempt) -> Obtained:
    """Downloads, verifies and unpacks the archive.

    UnavailableError when the vendor does not answer or has no such file, or its program does not
    run here. A file that is not the one that was proven is a ToolchainError: it was changed, which
    a person has to look into.
    """
    pin = attempt.pin.archive
    if pin is None:
        raise UnavailableError("no archive is pinned")
    _must_answer(pin, attempt.settings)
    try:
        proof = proof_of(pin, attempt.settings, attempt.step)
        source = address(pin, pin.file_name, attempt.settings)
        download.save(source, attempt.staging / pin.file_name, attempt.step)
        _install(attempt, pin, proof, source)
    except UnavailableError as reason:
        attempt.step.enter("checking", f"no archive: {reason}")
        raise
    if proof.lasts:
        attempt.settings.archives_lock.record(pin.file_name, proof.origin.sha256, attempt.step)
    return Obtained(key=key(proof.origin.sha256), proof=proof.by, archive=proof.origin)


def record_reused(pin: ToolPin, kept: Provenance, settings: Settings, step: Step) -> None:
    """Records the sum of an archive that another checkout has proven. Errors are those of
    `ArchivesLock.record`."""
    if pin.archive and kept.archive and known_sha256(pin.archive, settings) is None:
        settings.archives_lock.record(pin.archive.file_name, kept.archive.sha256, step)


def _must_answer(pin: ArchivePin, settings: Settings) -> None:
    """A mirror is not asked beforehand: whoever sets one wants to hear why it does not answer."""
    silent = [] if settings.mirror else settings.vendors.silent(pin)
    if silent:
        raise UnavailableError(f"no answer from {' and '.join(silent)}")


def _install(attempt: Attempt, pin: ArchivePin, proof: Proof, source: httpx.URL) -> None:
    archive = attempt.staging / pin.file_name
    attempt.step.enter("installing", pin.file_name)
    _check(archive, proof.origin.sha256, source)
    _unpack(archive, pin.members, attempt.staging)
    archive.unlink()
    _check_content(attempt, source)


def _check(archive: Path, expected: str, source: httpx.URL) -> None:
    with archive.open("rb") as stream:
        actual = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual != expected:
        raise ToolchainError(
            f"{shown(source)} has SHA-256 {actual}, expected {expected}",
            fix=f"find out why that address serves another file; {NO_ARCHIVES}",
        )


def _unpack(archive: Path, patterns: tuple[str, ...], folder: Path) -> None:
    try:
        for name, content in _members(archive):
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                target = folder / Path(name).name
                with content, target.open("wb") as output:
                    shutil.copyfileobj(content, output, _MIB)
                target.chmod(0o755)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise ToolchainError(
            f"{archive.name} cannot be unpacked: {error}",
            fix="its checksum is right, so the pinned file itself is not an archive: fix the pin",
        ) from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each regular file; nothing is written by the name in the archive."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield info.filename, packed.open(info)
        return
    with tarfile.open(archive) as packed_tar:
        for member in packed_tar:
            content = packed_tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content


def _check_content(attempt: Attempt, source: httpx.URL) -> None:
    try:
        check_versions(attempt.pin, attempt.staging)
    except OtherVersionError as wrong:
        raise ToolchainError(
            f"{shown(source)}: {wrong}, not {attempt.pin.version}",
            fix="pin the checksum of the archive of that version",
        ) from wrong
