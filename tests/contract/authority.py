"""A private certificate authority for the contract tests, made by the tls plugin's resources."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.contract.operations import idle_operation
from toolchain.plugins.tls_certificate import LocallySignedCert, SelfSignedCert

AUTHORITY = {
    "subject": {"commonName": "contract authority"},
    "validityPeriodHours": 2,
    "isCaCertificate": True,
    "allowedUses": ["cert_signing", "crl_signing"],
}


def new_key() -> str:
    """A private key of the kind that the platform's program has."""
    return written(ec.generate_private_key(ec.SECP256R1()))


def written(key: Any, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    """The PEM text of a private key, not encrypted."""
    return str(key.private_bytes(Encoding.PEM, form, NoEncryption()).decode())


def new_authority(**inputs: Any) -> dict[str, Any]:
    """The outputs of a new certificate authority."""
    given = {**AUTHORITY, "privateKeyPem": new_key(), **inputs}
    return SelfSignedCert().create(given, idle_operation())[1]


def request(private_key_pem: str, name: str, address: str = "127.0.0.1") -> str:
    """A certificate request for a name and an address; always the same for the same key."""
    key: Any = load_pem_private_key(private_key_pem.encode(), None)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = [x509.DNSName(name), x509.IPAddress(ip_address(address))]
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    return signed.public_bytes(Encoding.PEM).decode()


def sign(authority: dict[str, Any], request_pem: str, **inputs: Any) -> dict[str, Any]:
    """The outputs of a certificate that the authority has signed."""
    given = {
        "certRequestPem": request_pem,
        "caCertPem": authority["certPem"],
        "caPrivateKeyPem": authority["privateKeyPem"],
        "validityPeriodHours": 1,
        "allowedUses": ["digital_signature", "server_auth", "client_auth"],
        **inputs,
    }
    return LocallySignedCert().create(given, idle_operation())[1]


def write_authority(folder: Path, address: str) -> Path:
    """Write ca.pem, and for a server at `address` and a client: <who>.pem and <who>-key.pem."""
    authority = new_authority()
    (folder / "ca.pem").write_text(authority["certPem"])
    for who in ("server", "client"):
        key = new_key()
        (folder / f"{who}-key.pem").write_text(key)
        (folder / f"{who}.pem").write_text(sign(authority, request(key, who, address))["certPem"])
    return folder
