"""Private keys and certificate requests, derived from one secret seed.

A derived key needs no resource of its own. The same seed and identity always give the same key
and the same request: otherwise every update would replace every certificate.
"""

from __future__ import annotations

from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from components import seeds
from components.certificates.identities import Identity

# FIPS 186-5, appendix A.2.1: a scalar between 1 and n - 1, n being the order of P-256.
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def private_key_pem(seed: str, identity: Identity) -> str:
    """The identity's key: ECDSA on P-256, PKCS #8, not encrypted."""
    return (
        _key(seed, identity)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )


def request_pem(seed: str, identity: Identity, *, organization: str) -> str:
    """A request for the identity's certificate (PKCS #10)."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in identity.dns_names]
    names += [x509.IPAddress(ip_address(address)) for address in identity.addresses]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    request = builder.sign(_key(seed, identity), hashes.SHA256(), ecdsa_deterministic=True)
    return request.public_bytes(serialization.Encoding.PEM).decode()


def _key(seed: str, identity: Identity) -> ec.EllipticCurvePrivateKey:
    number = seeds.number(seed, f"key of {identity.name}")
    return ec.derive_private_key(number % (_ORDER - 1) + 1, _CURVE)
