"""Detached OpenPGP signatures of vendors' files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysequoia import Sig


class SignatureError(Exception):
    """A signature that proves nothing. The text says why, and names the key."""


@dataclass(frozen=True, kw_only=True)
class _Key:
    """The primary key of a certificate or one of its subkeys; it expires at `until`, or never."""

    fingerprint: str
    until: datetime | None


def fingerprint_of(certificate: Path) -> str:
    """The fingerprint, in upper-case hex, of the key in a file."""
    import pysequoia  # noqa: PLC0415 (as in `verify`)

    return pysequoia.Cert.from_file(str(certificate)).fingerprint.upper()


def verify(content: bytes, signature: bytes, certificate: Path) -> str:
    """Returns the fingerprint, in upper-case hex, of `certificate` (a file with the vendor's public
    key), by which or by a subkey of which `content` has to be signed.

    Each key has to be valid at the time of the signature: what a key has signed before it expired
    stays proven, and nothing that it signs afterwards is. SignatureError otherwise.
    """
    # Imported here: it takes as long as a tenth of a warm start, which verifies nothing.
    import pysequoia  # noqa: PLC0415

    owner = pysequoia.Cert.from_file(str(certificate))
    name = f"{owner.user_ids[0]} ({owner.fingerprint.upper()})"
    try:
        made = pysequoia.Sig.from_bytes(signature)
    except RuntimeError as error:
        raise SignatureError("it is not an OpenPGP signature") from error
    keys = _keys(certificate)
    signer = next((key for key in keys if _has_made(key, made)), None)
    if signer is None or made.created is None:
        by = (made.issuer_fingerprint or made.issuer_key_id or "unknown").upper()
        raise SignatureError(f"it was made by the key {by}, not by {name} of {certificate.name}")
    for key in (keys[0], signer):
        if key.until is not None and key.until <= made.created:
            raise SignatureError(
                f"{name} of {certificate.name} expired on {key.until:%Y-%m-%d}, before it signed "
                f"this on {made.created:%Y-%m-%d}"
            )
    try:
        pysequoia.verify(bytes=content, store=lambda _: [owner], signature=made)
    except RuntimeError as error:
        raise SignatureError(
            f"{name} of {certificate.name} has not signed this file: one of both was changed, or "
            f"the key was revoked or not bound yet on {made.created:%Y-%m-%d}"
        ) from error
    return owner.fingerprint.upper()


def _has_made(key: _Key, signature: Sig) -> bool:
    """Whether the signature says so, which `pysequoia.verify` then proves."""
    issuer = signature.issuer_fingerprint or signature.issuer_key_id
    return issuer is not None and key.fingerprint.endswith(issuer.lower())


def _keys(certificate: Path) -> list[_Key]:
    """The primary key and then the subkeys, each as its newest binding signature has it."""
    from pysequoia.packet import PacketPile, SignatureType  # noqa: PLC0415

    binding = (
        SignatureType.PositiveCertification,
        SignatureType.GenericCertification,
        SignatureType.DirectKey,
        SignatureType.SubkeyBinding,
    )
    keys: list[_Key] = []
    created: datetime | None = None
    newest: datetime | None = None
    for packet in PacketPile.from_file(str(certificate)):
        if packet.fingerprint is not None:
            created, newest = packet.key_created, None
            keys.append(_Key(fingerprint=packet.fingerprint, until=None))
        elif packet.signature_type in binding and created is not None:
            bound, valid = packet.signature_created, packet.key_validity_period
            if bound is not None and (newest is None or bound >= newest):
                newest = bound
                until = created + valid if valid is not None else None
                keys[-1] = _Key(fingerprint=keys[-1].fingerprint, until=until)
    return keys
