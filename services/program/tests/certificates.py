"""Certificates for tests, in the form of the secrets in schemas/node.schema.json."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER = ("server.dev.consul", "server.global.nomad", "localhost")
NODE = ("client.dev.consul", "client.global.nomad", "localhost")


class Root:
    """Above the authorities of several platforms."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("root")

    def certify(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.Certificate:
        """The certificate of an authority below."""
        return (
            _dated(name, self._name, key, days=1)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .sign(self._key, hashes.SHA256())
        )


class Authority:
    """Signs what a test asks for. It is an intermediate one, which everybody trusts by itself: a
    client or a server that can verify its certificates can verify those of a root."""

    def __init__(self, below: Root | None = None) -> None:
        self._root = below or Root()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        self._certificate = self._root.certify(self._name, self._key.public_key())

    @property
    def pem(self) -> str:
        return _pem(self._certificate)

    def sibling(self) -> Authority:
        """Another one below the same root."""
        return Authority(self._root)

    def issue(
        self, name: str, dns_names: Sequence[str] = (), addresses: Sequence[str] = (), days: int = 1
    ) -> dict[str, str]:
        """The files of a certificate that may be a client's and a server's."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        names: list[x509.GeneralName] = [x509.DNSName(each) for each in dns_names]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = _dated(subject, self._name, key.public_key(), days).add_extension(
            x509.ExtendedKeyUsage(uses), critical=False
        )
        # Authorities of the same name are told apart by it.
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return {
            "ca.pem": self.pem,
            "cert.pem": _pem(certificate) + self.pem,
            "key.pem": key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        }


def own_der(pem: str) -> bytes:
    """The certificate of a file in DER, without the authorities above it that follow."""
    first, end, _ = pem.partition(ssl.PEM_FOOTER)
    return ssl.PEM_cert_to_DER_cert(first + end)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
