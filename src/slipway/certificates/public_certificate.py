"""The certificate that the gateway shows its clients: files of the operator's machine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from slipway.config.document import Origin
from slipway.config.errors import ConfigError, Problem, raise_if_any
from slipway.config.gateway import CertificateSettings

from . import pem
from .pem import PemError

KEY = ("gateway", "certificate")
WARNED_BEFORE = datetime.timedelta(days=30)
STRONG = f"get one with ECDSA on P-256, or RSA of {pem.LEAST_RSA_BITS} bits or more, and SHA-256"

Report = Callable[[str, str, str], Problem]  # (field, message, fix)
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCertificate:
    """What a plan says of the certificate; it never has the private key. `not_valid` is why clients
    would refuse it now, before and after its time."""

    name: str
    fingerprint: str  # SHA-256 of the certificate itself, hexadecimal
    expires: datetime.date  # the first one of the chain
    warnings: tuple[str, ...] = ()
    not_valid: tuple[Problem, ...] = ()


def read_public_certificate(
    root: Path, settings: CertificateSettings, origin: Origin, *, now: datetime.datetime
) -> PublicCertificate:
    """The certificate, if a gateway can use it and clients will accept it in its time.

    `now` is aware of its time zone. Raises ConfigError with every problem but those of time, which
    must keep nobody from a preview or a restore.
    """

    def report(field: str, message: str, fix: str) -> Problem:
        value = getattr(settings, field)
        return origin.problem((*KEY, field), message, fix=fix, value=value)

    def file(name: str) -> Path:
        return pem.file_in(root, name)

    chain = _parsed("cert", report, lambda: pem.certificates(pem.read(file(settings.cert))))
    key = _parsed("key", report, lambda: pem.private_key(pem.read(file(settings.key))))
    if (ca := settings.ca) is not None:
        _parsed("ca", report, lambda: pem.certificates(pem.read(file(ca))))
    leaf = chain[0]
    raise_if_any(
        [
            *_refused("key", report, lambda: pem.must_be_private(file(settings.key))),
            *_mismatch(chain, key, report),
            *_refused("cert", report, lambda: pem.must_be_a_chain(chain)),
            *_weak(chain, report),
            *_refused("cert", report, lambda: _must_be_for_servers(leaf)),
        ]
    )
    expires = min(each.not_valid_after_utc for each in chain)
    not_valid = tuple(_out_of_date(chain, now, report))
    return PublicCertificate(
        name=_name(leaf, settings.name, report),
        fingerprint=leaf.fingerprint(hashes.SHA256()).hex(),
        expires=expires.date(),
        warnings=_warnings(settings.cert, expires, now, not_valid),
        not_valid=not_valid,
    )


def _warnings(
    cert: str, expires: datetime.datetime, now: datetime.datetime, not_valid: Sequence[Problem]
) -> tuple[str, ...]:
    if not_valid:
        return tuple(f"{each.place_and_message}: slipway up refuses it" for each in not_valid)
    soon = expires - now < WARNED_BEFORE
    return (f"{cert} expires on {expires.date()}: renew it",) if soon else ()


def _parsed(field: str, report: Report, parse: Callable[[], _Parsed]) -> _Parsed:
    try:
        return parse()
    except PemError as error:
        raise ConfigError([report(field, error.message, error.fix)]) from None


def _refused(field: str, report: Report, check: Callable[[], None]) -> Iterator[Problem]:
    try:
        check()
    except PemError as error:
        yield report(field, error.message, error.fix)


def _mismatch(
    chain: Sequence[x509.Certificate], key: pem.PrivateKey, report: Report
) -> Iterator[Problem]:
    if not pem.belongs(key, chain[0]) and any(pem.belongs(key, each) for each in chain):
        fix = "put the certificate of the key first, then its issuer, and so on"
        yield report("cert", "does not begin with the certificate of the key", fix)
    else:
        yield from _refused("key", report, lambda: pem.must_belong_to(key, chain[0]))


def _out_of_date(
    chain: Sequence[x509.Certificate], now: datetime.datetime, report: Report
) -> Iterator[Problem]:
    for each in chain:
        if each.not_valid_after_utc <= now:
            when = f"expired on {each.not_valid_after_utc.date()}"
            yield report("cert", f"the certificate of {pem.subject(each)} {when}", "renew it")
        if each.not_valid_before_utc > now:
            when = f"is not valid before {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            fix = "wait until then, or correct this machine's clock"
            yield report("cert", f"the certificate of {pem.subject(each)} {when}", fix)


def _weak(chain: Sequence[x509.Certificate], report: Report) -> Iterator[Problem]:
    for each in chain:
        try:
            _must_suit_envoy(each)
            pem.must_have_a_strong_key(each)
            if each.subject != each.issuer:  # nobody checks the signature of a root by itself
                pem.must_have_a_strong_signature(each)
        except PemError as error:
            yield report("cert", error.message, STRONG)


def _must_suit_envoy(certificate: x509.Certificate) -> None:
    key = pem.public_key(certificate)
    known = isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in pem.CURVES
    if not known and not isinstance(key, rsa.RSAPublicKey):
        who = pem.subject(certificate)
        raise PemError(f"has a kind of key that Envoy does not accept, in {who}", fix=STRONG)


def _must_be_for_servers(leaf: x509.Certificate) -> None:
    uses = pem.extension(leaf, x509.ExtendedKeyUsage)
    if uses is not None and ExtendedKeyUsageOID.SERVER_AUTH not in uses:
        raise PemError(
            f"is not for servers: the extended key usage of {pem.subject(leaf)} has no serverAuth",
            fix="get one whose extended key usage has serverAuth",
        )


def _name(leaf: x509.Certificate, chosen: str | None, report: Report) -> str:
    """The name by which clients verify the certificate."""
    names = _parsed("cert", report, lambda: _dns_names(leaf))
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
    names = pem.extension(leaf, x509.SubjectAlternativeName)
    return [] if names is None else names.get_values_for_type(x509.DNSName)


def _matches(name: str, in_certificate: str) -> bool:
    """A wildcard stands for one label (RFC 6125, 6.4.3)."""
    name, in_certificate = name.lower(), in_certificate.lower()
    if not in_certificate.startswith("*."):
        return name == in_certificate
    label, _, rest = name.partition(".")
    return bool(label) and rest == in_certificate.removeprefix("*.")


def _one_of(names: Sequence[str]) -> str:
    return f"use one of: {', '.join(names)}" if names else "get a certificate with DNS names"
