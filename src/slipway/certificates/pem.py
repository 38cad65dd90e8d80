"""PEM files that users bring: certificates and their private keys, and what is wrong with them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

LEAST_RSA_BITS = 2048
CURVES = ("secp256r1", "secp384r1", "secp521r1")
BROKEN_HASHES = ("md5", "sha1")
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
Extension = TypeVar("Extension", bound=x509.ExtensionType)


class PemError(Exception):
    """What is wrong with a file, as the end of a sentence about it, and how to fix it."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def file_in(root: Path, name: str) -> Path:
    """A file that a setting names: relative to the checkout, or of the user's home (~)."""
    try:
        return root / Path(name).expanduser()
    except RuntimeError as error:  # the home of nobody
        raise PemError(f"cannot be read: {error}", fix="correct the path") from None


def read(path: Path) -> str:
    """The text of a file. Text around its PEM blocks may be in any encoding."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        raise PemError("does not exist", fix="correct the path, or put the file there") from None
    except OSError as error:
        raise PemError(
            f"cannot be read: {error.strerror}", fix="name a file that your user may read"
        ) from None
    except ValueError as error:  # a path that no file can have
        raise PemError(f"cannot be read: {error}", fix="correct the path") from None
    if not text.isascii() and "-----BEGIN" not in text:
        raise PemError("is not PEM text", fix="convert it to PEM with openssl")
    return text


def must_be_private(path: Path) -> None:
    """PemError if others than the owner may read or write the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PemError(
            f"may be used by other users than its owner (mode {mode:04o})",
            fix=f"chmod 600 {quote(str(path))}; if others may have read it, replace the key and its"
            " certificate",
        )


def certificates(text: str) -> tuple[x509.Certificate, ...]:
    """All certificates in a text, in its order; at least one."""
    try:
        return tuple(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        raise PemError(
            "holds no certificate in PEM form", fix="name a file with -----BEGIN CERTIFICATE-----"
        ) from None


def must_be_a_chain(chain: Sequence[x509.Certificate]) -> None:
    """PemError unless each certificate was issued by the next one. One that is too weak to tell
    needs only its issuer's name here: must_be_strong refuses it."""
    for certificate, issuer in pairwise(chain):
        if not _issued(certificate, issuer):
            raise PemError(
                f"is not a chain: {subject(certificate)} was not issued by {subject(issuer)}, which"
                " follows it",
                fix="put each certificate's issuer right after it, and nothing else into the file",
            )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        must_have_a_strong_key(issuer)
        must_have_a_strong_signature(certificate)
    except PemError:  # cannot be verified, and is refused for that
        return certificate.issuer == issuer.subject
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def private_key(text: str) -> PrivateKey:
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except TypeError:
        raise PemError(
            "is encrypted with a passphrase", fix="decrypt it: openssl pkey -in KEY -out NEW"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise PemError(
            "is no private key in PEM form", fix="give one that begins with -----BEGIN PRIVATE KEY"
        ) from None
    if not isinstance(key, PrivateKey):
        raise PemError(
            "is neither an RSA, nor an ECDSA, nor an Ed25519 key", fix="use one of these kinds"
        )
    return key


def must_belong_to(key: PrivateKey, certificate: x509.Certificate) -> None:
    if not belongs(key, certificate):
        raise PemError(
            f"does not belong to the certificate of {subject(certificate)}",
            fix="name the private key of this certificate",
        )


def belongs(key: PrivateKey, certificate: x509.Certificate) -> bool:
    return key.public_key() == public_key(certificate)


def must_be_strong(certificate: x509.Certificate) -> None:
    """PemError for a key or a signature that can be forged, or of a kind that peers do not support.
    The signature of a self-signed certificate proves nothing, and still names its age."""
    must_have_a_strong_key(certificate)
    must_have_a_strong_signature(certificate)


def must_have_a_strong_key(certificate: x509.Certificate) -> None:
    key, who = public_key(certificate), subject(certificate)
    new = "use a certificate with RSA of 2048 bits or more, ECDSA on P-256 or more, or Ed25519"
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < LEAST_RSA_BITS:
            raise PemError(f"is weak: {who} has an RSA key of {key.key_size} bits", fix=new)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name not in CURVES:
            raise PemError(f"is weak: {who} has a key on the curve {key.curve.name}", fix=new)
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        raise PemError(f"is of no known kind of key: {who}", fix=new)


def must_have_a_strong_signature(certificate: x509.Certificate) -> None:
    who, new = subject(certificate), "have it issued again with SHA-256 or more"
    try:
        digest = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        raise PemError(f"is signed by no known algorithm: {who}", fix=new) from None
    if digest is not None and digest.name in BROKEN_HASHES:
        raise PemError(f"is weak: {who} is signed with {digest.name.upper()}", fix=new)


def public_key(certificate: x509.Certificate) -> PublicKeyTypes | None:
    """The key of a certificate, None if it is of a kind that is not known."""
    try:
        return certificate.public_key()
    except (UnsupportedAlgorithm, ValueError):
        return None


def extension(certificate: x509.Certificate, kind: type[Extension]) -> Extension | None:
    """The extension of this kind, if the certificate has one. PemError if it is malformed."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise PemError(
            f"has an extension that cannot be read, in {subject(certificate)}: {error}",
            fix="have it issued again",
        ) from None


def subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"number {certificate.serial_number:x}"


def written(chain: Sequence[x509.Certificate]) -> str:
    """The PEM text of certificates, and nothing else that their file may hold."""
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in chain)


def written_key(key: PrivateKey) -> str:
    """The key as PKCS #8, not encrypted, whatever the form of its file was."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
