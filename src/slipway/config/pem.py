"""PEM files that users bring: certificates and their private keys, and what is wrong with them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

LEAST_RSA_BITS = 2048
CURVES = ("secp256r1", "secp384r1", "secp521r1")
BROKEN_HASHES = ("md5", "sha1")
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


class PemError(Exception):
    """What is wrong with a file, as the end of a sentence about it, and how to fix it."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def read(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PemError("does not exist", fix="correct the path, or put the file there") from None
    except OSError as error:
        raise PemError(
            f"cannot be read: {error.strerror}", fix="make it readable by your user"
        ) from None
    except UnicodeDecodeError:
        raise PemError("is not PEM text", fix="convert it to PEM with openssl") from None


def must_be_private(path: Path) -> None:
    """PemError if others than the owner may read or write the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise PemError(
            f"may be used by other users than its owner (mode {mode:04o})", fix=f"chmod 600 {path}"
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
    """PemError unless each certificate was issued by the next one."""
    for certificate, issuer in pairwise(chain):
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            raise PemError(
                f"holds unrelated certificates: {subject(certificate)} was not issued by"
                f" {subject(issuer)}, which follows it",
                fix="keep one certificate, followed by the one that issued it and so on",
            ) from None


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
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise PemError(
            f"does not belong to the certificate of {subject(certificate)}",
            fix="name the private key of this certificate",
        )


def must_be_strong(certificate: x509.Certificate) -> None:
    """PemError for a key or a signature that can be forged, or that peers do not know. The
    signature of a self-signed certificate proves nothing, and still names its age."""
    key, who = certificate.public_key(), subject(certificate)
    new = "use a certificate with RSA of 2048 bits or more, ECDSA on P-256 or more, or Ed25519"
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < LEAST_RSA_BITS:
            raise PemError(f"is weak: {who} has an RSA key of {key.key_size} bits", fix=new)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name not in CURVES:
            raise PemError(f"is weak: {who} has a key on the curve {key.curve.name}", fix=new)
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        raise PemError(f"is of no known kind of key: {who}", fix=new)
    digest = certificate.signature_hash_algorithm
    if digest is not None and digest.name in BROKEN_HASHES:
        raise PemError(
            f"is weak: {who} is signed with {digest.name.upper()}",
            fix="have it issued again with SHA-256 or more",
        )


def subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"number {certificate.serial_number:x}"


def written(chain: Sequence[x509.Certificate]) -> str:
    """The PEM text of certificates, and nothing else that their file may hold."""
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in chain)


def written_key(key: PrivateKey) -> str:
    """The same text whatever the form of its file was: PKCS #8, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
