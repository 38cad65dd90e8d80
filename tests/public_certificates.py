"""Certificates as a public authority issues them, and every kind that must be refused."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
NAME = "llm.example.com"


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: PrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.encrypted(serialization.NoEncryption())

    def encrypted(self, by: serialization.KeySerializationEncryption) -> str:
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, by).decode()

    @property
    def fingerprint(self) -> str:
        return self.certificate.fingerprint(hashes.SHA256()).hex()


def issue(
    name: str,
    signed_by: Issued | None = None,
    *,
    dns_names: Sequence[str] = (),
    days: float = 90,
    starts_in_days: float = -1,
    key: PrivateKey | None = None,
    authority: bool = False,
    use: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Issued:
    """A certificate of this common name, signed by itself unless by another."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by.certificate.subject if signed_by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=starts_in_days))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    if dns_names:
        names = x509.SubjectAlternativeName([x509.DNSName(each) for each in dns_names])
        builder = builder.add_extension(names, critical=False)
    signer = signed_by.key if signed_by else key
    return Issued(builder.sign(signer, hashes.SHA256()), key)


SHA256_WITH_RSA = bytes.fromhex("06092a864886f70d01010b")
SIGNED_WITH = {"MD5": 0x04, "SHA1": 0x05}  # in place of the last byte (RFC 8017, appendix A.2.4)


def signed_with(algorithm: str, issued: Issued) -> Issued:
    """As if an RSA key had signed it by a hash with which nothing can be signed any more."""
    der = issued.certificate.public_bytes(serialization.Encoding.DER)
    assert SHA256_WITH_RSA in der
    other = SHA256_WITH_RSA[:-1] + bytes([SIGNED_WITH[algorithm]])
    return Issued(x509.load_der_x509_certificate(der.replace(SHA256_WITH_RSA, other)), issued.key)


class PublicAuthority:
    """A root and the authority below it that signs, as public ones are made."""

    def __init__(self) -> None:
        self.root = issue("root", authority=True, days=3650)
        self.signs = issue("intermediate", self.root, authority=True, days=1000)

    def issue(self, *dns_names: str, days: float = 90) -> Issued:
        names = dns_names or (NAME,)
        return issue(names[0], self.signs, dns_names=names, days=days)

    def chain(self, issued: Issued) -> str:
        """The certificate and the one that signed it, as `fullchain.pem` has them."""
        return issued.pem + self.signs.pem


def put(folder: Path, *, cert: str, key: str) -> None:
    """cert.pem and key.pem in the folder; only their owner reads the key."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cert.pem").write_text(cert)
    (folder / "key.pem").touch(mode=0o600)
    (folder / "key.pem").write_text(key)
