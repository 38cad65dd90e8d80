"""The certificate that the gateway shows its clients: files of the operator's machine."""

from __future__ import annotations

import datetime
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from .base import Settings
from .document import Origin
from .errors import ConfigError, Problem, quoted, raise_if_any

KEY = ("gateway", "certificate")
WARNED_BEFORE = datetime.timedelta(days=30)
LEAST_RSA_BITS = 2048
CURVES = ("secp256r1", "secp384r1", "secp521r1")  # those that Envoy accepts
BROKEN_HASHES = ("md5", "sha1")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

Report = Callable[[str, str, str], Problem]  # (field, message, fix)


class CertificateSettings(Settings):
    """`cert` is the certificate and those of its issuers, PEM, its own first; `key` is its private
    key. `name` is the name by which clients know the gateway, by default the first one in the
    certificate. `ca` has the certificates by which the command line knows it, by default those that
    the operator's machine trusts."""

    EXAMPLE = "{cert: tls/fullchain.pem, key: tls/privkey.pem}"
    cert: str
    key: str
    name: str | None = None
    ca: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCertificate:
    """What a plan says of the certificate; it never has the private key."""

    name: str
    fingerprint: str  # SHA-256 of the certificate itself, hexadecimal
    expires: datetime.date  # the first one of the chain
    warnings: tuple[str, ...] = ()


def file_in(root: Path, name: str) -> Path:
    """A file that a setting names: relative to the checkout, or of the user's home (~)."""
    return root / Path(name).expanduser()


def read_public_certificate(
    root: Path, settings: CertificateSettings, origin: Origin, *, now: datetime.datetime
) -> PublicCertificate:
    """The certificate, if a gateway can use it and clients will accept it.

    `now` is aware of its time zone. Raises ConfigError with every problem that was found.
    """

    def report(field: str, message: str, fix: str) -> Problem:
        value = getattr(settings, field)
        return origin.problem((*KEY, field), message, fix=fix, value=value)

    chain = _chain(_bytes(root, settings.cert, "cert", report), report)
    key = _private_key(_bytes(root, settings.key, "key", report), report)
    if settings.ca is not None:
        _authorities(_bytes(root, settings.ca, "ca", report), report)
    leaf = chain[0]
    raise_if_any(
        [
            *_open_to_others(file_in(root, settings.key), settings.key, report),
            *_mismatch(chain, key.public_key(), report),
            *_disorder(chain, report),
            *_out_of_date(chain, now, report),
            *_weak(chain, report),
            *_not_for_servers(leaf, report),
        ]
    )
    expires = min(each.not_valid_after_utc for each in chain)
    return PublicCertificate(
        name=_name(leaf, settings.name, report),
        fingerprint=leaf.fingerprint(hashes.SHA256()).hex(),
        expires=expires.date(),
        warnings=(f"{settings.cert} expires on {expires.date()}: renew it",)
        if expires - now < WARNED_BEFORE
        else (),
    )


def _bytes(root: Path, name: str, field: str, report: Report) -> bytes:
    try:
        return file_in(root, name).read_bytes()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: the home of nobody
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"cannot be read: {(reason or str(error)).lower()}"
        raise ConfigError([report(field, message, "name a PEM file of this machine")]) from None


def _chain(text: bytes, report: Report) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        fix = "name the certificate in PEM form (-----BEGIN CERTIFICATE-----), with its issuers'"
        raise ConfigError([report("cert", "has no certificate in PEM form", fix)]) from None


def _authorities(text: bytes, report: Report) -> None:
    try:
        x509.load_pem_x509_certificates(text)
    except ValueError:
        fix = "name a file of certificates in PEM form (-----BEGIN CERTIFICATE-----)"
        raise ConfigError([report("ca", "has no certificate in PEM form", fix)]) from None


def _private_key(text: bytes, report: Report) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(text, password=None)
    except TypeError:
        fix = "decrypt it (openssl pkey), or name another one: nobody is there to type a passphrase"
        raise ConfigError([report("key", "is encrypted with a passphrase", fix)]) from None
    except ValueError:
        fix = "name the certificate's key in PEM form (-----BEGIN PRIVATE KEY-----)"
        raise ConfigError([report("key", "has no private key in PEM form", fix)]) from None


def _open_to_others(path: Path, name: str, report: Report) -> Iterator[Problem]:
    mode = path.stat().st_mode
    if mode & _OTHERS:
        fix = f"chmod 600 {name}; if others may have read it, get another key and certificate"
        yield report("key", f"is a file that others can use (mode {stat.S_IMODE(mode):04o})", fix)


def _mismatch(
    chain: Sequence[x509.Certificate], key: PublicKeyTypes, report: Report
) -> Iterator[Problem]:
    if chain[0].public_key() == key:
        return
    if any(each.public_key() == key for each in chain):
        fix = "put the certificate of the key first, then its issuer, and so on"
        yield report("cert", "does not begin with the certificate of the key", fix)
    else:
        subject = _subject(chain[0])
        fix = "name the key and the certificate that were made together"
        yield report("key", f"does not belong to the certificate of {subject}", fix)


def _disorder(chain: Sequence[x509.Certificate], report: Report) -> Iterator[Problem]:
    for certificate, issuer in pairwise(chain):
        if not _signed(certificate, issuer):
            yield report(
                "cert",
                f"is out of order: {_subject(issuer)} follows {_subject(certificate)}, but did not"
                " sign it",
                "put each certificate's issuer right after it, and nothing else into the file",
            )
            return


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except UnsupportedAlgorithm:  # too weak: reported as such
        return certificate.issuer == issuer.subject
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _out_of_date(
    chain: Sequence[x509.Certificate], now: datetime.datetime, report: Report
) -> Iterator[Problem]:
    for each in chain:
        if each.not_valid_after_utc <= now:
            when = f"expired on {each.not_valid_after_utc.date()}"
            yield report("cert", f"the certificate of {_subject(each)} {when}", "renew it")
        if each.not_valid_before_utc > now:
            when = f"is not valid before {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            fix = "wait until then, or correct this machine's clock"
            yield report("cert", f"the certificate of {_subject(each)} {when}", fix)


def _weak(chain: Sequence[x509.Certificate], report: Report) -> Iterator[Problem]:
    fix = f"get one with ECDSA on P-256, or RSA of {LEAST_RSA_BITS} bits or more, and SHA-256"
    for each in chain:
        if found := _weakness(each):
            yield report("cert", f"the certificate of {_subject(each)} {found}", fix)


def _weakness(certificate: x509.Certificate) -> str | None:
    key, signed_with = certificate.public_key(), certificate.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < LEAST_RSA_BITS:
            return f"has an RSA key of {key.key_size} bits, which is too weak"
    elif not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        return "has a kind of key that Envoy does not accept"
    # Nobody checks the signature of a root by itself.
    is_root = certificate.subject == certificate.issuer
    if signed_with is not None and signed_with.name in BROKEN_HASHES and not is_root:
        return f"is signed with {signed_with.name.upper()}, which clients refuse"
    return None


def _not_for_servers(leaf: x509.Certificate, report: Report) -> Iterator[Problem]:
    try:
        uses = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if ExtendedKeyUsageOID.SERVER_AUTH not in uses:
        fix = "get one whose extended key usage has serverAuth"
        yield report("cert", f"the certificate of {_subject(leaf)} is not for servers", fix)


def _name(leaf: x509.Certificate, chosen: str | None, report: Report) -> str:
    """The name by which clients verify the certificate."""
    names = _dns_names(leaf)
    if chosen is not None:
        if not any(_matches(chosen, name) for name in names):
            problem = report("name", "is not a name in the certificate", _one_of(names))
            raise ConfigError([problem])
        return chosen
    plain = [name for name in names if not name.startswith("*")]
    if plain:
        return plain[0]
    message = (
        f"is for {', '.join(names)} only, which does not say what the gateway is called"
        if names
        else "has no DNS name (subject alternative name), by which clients verify it"
    )
    fix = (
        f"add `name:`, e.g. `name: llm{names[0].removeprefix('*')}`"
        if names
        else "get one with the DNS name that clients use"
    )
    raise ConfigError([report("cert", message, fix)])


def _dns_names(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return found.get_values_for_type(x509.DNSName)


def _matches(name: str, in_certificate: str) -> bool:
    """A wildcard stands for one label (RFC 6125, 6.4.3)."""
    name, in_certificate = name.lower(), in_certificate.lower()
    if not in_certificate.startswith("*."):
        return name == in_certificate
    label, _, rest = name.partition(".")
    return bool(label) and rest == in_certificate.removeprefix("*.")


def _one_of(names: Sequence[str]) -> str:
    return f"use one of: {', '.join(names)}" if names else "get a certificate with DNS names"


def _subject(certificate: x509.Certificate) -> str:
    return quoted(certificate.subject.rfc4514_string())
