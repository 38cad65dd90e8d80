"""The SHA-256 that a vendor's archive must have, and what proves that it is the right one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

from toolchain import download
from toolchain.download import NO_ARCHIVES, shown
from toolchain.errors import ToolchainError, UnavailableError
from toolchain.pins import ArchivePin, SumsPin
from toolchain.progress import Step
from toolchain.settings import Settings
from toolchain.signatures import SignatureError, fingerprint_of, verify
from toolchain.store import ArchiveOrigin
from toolchain.sums import TwoSumsError, find_sum

SIGNED = "signed by"
BY_HTTPS = "checksum by HTTPS"
RECORDED = "archives.lock"
_KEY_DIGITS = 8  # how vendors and `gpg` name a key in short


@dataclass(frozen=True, kw_only=True)
class Proof:
    """`by` is what `slipway tools` shows. `lasts` if the sum came from the vendor: the checkout
    then records it."""

    origin: ArchiveOrigin
    by: str
    lasts: bool = False


def known_sha256(pin: ArchivePin, settings: Settings) -> str | None:
    """The SHA-256 that can be known without asking the vendor."""
    given = _given(pin, settings)
    return given.origin.sha256 if given else settings.archives_lock.sums().get(pin.file_name)


def is_proven(pin: ArchivePin, origin: ArchiveOrigin, settings: Settings) -> bool:
    """Whether what another checkout took for proof is one for this checkout too: a signature by
    the same key or, where there is none, sums from the same host."""
    if pin.sums is None:
        return False
    if pin.sums.signature is not None:
        return origin.signer is not None and origin.signer == fingerprint_of(pin.sums.signature.key)
    try:
        source = address(pin, pin.sums.file_name, settings)
    except UnavailableError:
        return False
    return source.scheme == "https" and origin.host == _host(source)


def proof_of(pin: ArchivePin, settings: Settings, step: Step) -> Proof:
    """What the pin or the operator gives, else what the vendor (or the mirror) publishes.

    UnavailableError where nothing is published; ToolchainError for a signature that proves nothing,
    and for a sum that differs from the one that this checkout saw first.
    """
    return _given(pin, settings) or _published(pin, settings, step)


def address(pin: ArchivePin, file_name: str, settings: Settings) -> httpx.URL:
    """The URL of a file of the archive's release; UnavailableError when the mirror's is invalid."""
    mirror = settings.mirror
    try:
        return httpx.URL(f"{mirror}/{file_name}" if mirror else pin.beside(file_name))
    except httpx.InvalidURL as error:
        raise UnavailableError(f"SLIPWAY_MIRROR is not a valid URL: {error}") from error


def _given(pin: ArchivePin, settings: Settings) -> Proof | None:
    if pin.sha256 is not None:
        return Proof(origin=ArchiveOrigin(sha256=pin.sha256), by="pinned checksum")
    given = settings.checksums.get(pin.file_name)
    return Proof(origin=ArchiveOrigin(sha256=given), by="your checksum") if given else None


def _published(pin: ArchivePin, settings: Settings, step: Step) -> Proof:
    if pin.sums is None:
        raise UnavailableError("its checksum is not known")
    source = address(pin, pin.sums.file_name, settings)
    recorded = settings.archives_lock.sums().get(pin.file_name)
    try:
        sums, signature = _sums_and_signature(pin, pin.sums, settings, step)
    except UnavailableError:
        if recorded is None or settings.mirror is None:
            raise
        return Proof(origin=ArchiveOrigin(sha256=recorded), by=RECORDED)
    # Before the signature: the page of a filter in place of both files is no changed file.
    sha256 = _listed(sums, pin.file_name, source)
    if sha256 is None:
        raise UnavailableError(f"{shown(source)} does not list {pin.file_name}")
    host, key = _host(source), None
    by = f"{BY_HTTPS} from {host}" if settings.mirror else BY_HTTPS
    if pin.sums.signature is not None:
        place = address(pin, pin.sums.signature.file_name, settings)
        key = _signer(sums, signature, pin.sums.signature.key, place)
        by = f"{SIGNED} {key[-_KEY_DIGITS:]}"
    if recorded not in (None, sha256):
        raise settings.archives_lock.mismatch(pin.file_name, sha256, shown(source))
    origin = ArchiveOrigin(sha256=sha256, host=host, signer=key)
    return Proof(origin=origin, by=by, lasts=True)


def _sums_and_signature(
    pin: ArchivePin, sums: SumsPin, settings: Settings, step: Step
) -> tuple[bytes, bytes]:
    """The signature is empty where the vendor signs nothing. UnavailableError where they are not
    served, or would prove nothing."""
    source = address(pin, sums.file_name, settings)
    if sums.signature is None and source.scheme != "https":
        raise UnavailableError(
            f"{shown(source)} is not signed and not served by HTTPS: SLIPWAY_MIRROR_CHECKSUMS has "
            "to name a file with its checksum"
        )
    content = download.read(source, step)
    if sums.signature is None:
        return content, b""
    return content, download.read(address(pin, sums.signature.file_name, settings), step)


def _listed(sums: bytes, file_name: str, source: httpx.URL) -> str | None:
    try:
        return find_sum(sums.decode(errors="replace"), file_name)
    except TwoSumsError as error:
        raise ToolchainError(
            f"{shown(source)}, {error}",
            fix=f"find out which one is right and why that address serves both; {NO_ARCHIVES}",
        ) from error


def _host(source: httpx.URL) -> str:
    return source.netloc.decode()


def _signer(sums: bytes, signature: bytes, key: Path, source: httpx.URL) -> str:
    try:
        return verify(sums, signature, key)
    except SignatureError as error:
        raise ToolchainError(
            f"{shown(source)} proves nothing: {error}",
            fix=f"find out why that address serves it; if the vendor has a newer key, put it into "
            f"{key} ({key.parent / 'README.md'} has its source). {NO_ARCHIVES}",
        ) from error
