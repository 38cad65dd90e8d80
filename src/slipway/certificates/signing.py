"""Checks that a certificate may sign for the platform."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from . import pem
from .pem import PemError

Network = IPv4Network | IPv6Network
_ANY = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
_BOTH = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def must_sign(chain: Sequence[x509.Certificate]) -> None:
    """PemError unless the first certificate may sign others, and those above it may have issued
    it."""
    pem.must_be_a_chain(chain)
    for below, certificate in enumerate(chain):
        who, fix = pem.subject(certificate), "use the certificate of a certificate authority"
        basic = pem.extension(certificate, x509.BasicConstraints)
        usage = pem.extension(certificate, x509.KeyUsage)
        if basic is None or not basic.ca:
            raise PemError(f"is not an authority's: {who} has no CA:TRUE", fix=fix)
        if usage is None or not usage.key_cert_sign:
            raise PemError(
                f"may not sign: the key usage of {who} has no keyCertSign",
                fix="have it issued again with keyCertSign",
            )
        if basic.path_length is not None and basic.path_length < below:
            raise PemError(
                f"may not sign: {who} allows {basic.path_length} authorities below it"
                f" (pathlen), and there are {below}",
                fix="have the intermediate issued by an authority that allows it",
            )
        extended = pem.extension(certificate, x509.ExtendedKeyUsage)
        if extended and not {*extended} >= _BOTH and _ANY not in extended:
            raise PemError(
                f"may not sign for servers and clients: the extended key usage of {who} does not"
                " name both",
                fix="have it issued again without, or with serverAuth and clientAuth",
            )
        pem.must_be_strong(certificate)
    if pem.extension(chain[0], x509.SubjectKeyIdentifier) is None:
        raise PemError(
            f"has no subjectKeyIdentifier: nobody could tell {pem.subject(chain[0])} from its"
            " successor of the same name",
            fix="have it issued again with one",
        )


def must_allow(chain: Iterable[x509.Certificate], names: Iterable[str], network: Network) -> None:
    """PemError if name constraints forbid the names, or addresses of the network."""
    names, networks = list(names), [network, ip_network("127.0.0.1/32")]
    for certificate in chain:
        constraints = pem.extension(certificate, x509.NameConstraints)
        for forbidden in _forbidden(constraints, names, networks) if constraints else ():
            raise PemError(
                f"may not sign for {forbidden}: {pem.subject(certificate)} constrains names",
                fix="use an authority whose name constraints allow the names of the platform, or"
                " one without",
            )


def _forbidden(
    constraints: x509.NameConstraints, names: Iterable[str], networks: Iterable[Network]
) -> Iterator[str]:
    permitted = list(constraints.permitted_subtrees or ())
    excluded = list(constraints.excluded_subtrees or ())
    dns = [each.value for each in permitted if isinstance(each, x509.DNSName)]
    not_dns = [each.value for each in excluded if isinstance(each, x509.DNSName)]
    for name in names:
        if (dns and not _below_any(name, dns)) or _below_any(name, not_dns):
            yield name
    inside = [each.value for each in permitted if isinstance(each, x509.IPAddress)]
    outside = [each.value for each in excluded if isinstance(each, x509.IPAddress)]
    for network in networks:
        allowed = not inside or any(_contains(each, network) for each in inside)
        if not allowed or any(
            _contains(network, each) or _contains(each, network) for each in outside
        ):
            yield f"addresses of {network}"
    if any(isinstance(each, x509.DirectoryName) for each in (*permitted, *excluded)):
        yield "the subjects of the platform"


def _contains(outer: Any, inner: Any) -> bool:
    return bool(outer.version == inner.version and inner.subnet_of(outer))


def _below_any(name: str, domains: Iterable[str]) -> bool:
    bare = [domain.removeprefix(".") for domain in domains]
    return any(not domain or name == domain or name.endswith(f".{domain}") for domain in bare)
