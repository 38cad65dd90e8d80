"""Certificate authorities as users bring them, good and bad ones, as files."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

NOW = datetime.datetime.now(datetime.UTC)
CA = x509.BasicConstraints(ca=True, path_length=None)
SIGNS = ("key_cert_sign", "crl_sign")
_FLAGS = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def key_usage(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{flag: flag in uses for flag in _FLAGS})


@dataclass(frozen=True, kw_only=True)
class Made:
    """An authority: its certificate, then those above it, and its key."""

    chain: tuple[x509.Certificate, ...]
    key: Any

    @property
    def pem(self) -> str:
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in self.chain)

    @property
    def key_pem(self) -> str:
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        return str(self.key.private_bytes(*form).decode())

    @property
    def fingerprint(self) -> str:
        return self.chain[0].fingerprint(hashes.SHA256()).hex()

    def write(self, folder: Path, name: str = "ca") -> None:
        """<name>.pem and <name>-key.pem."""
        (folder / f"{name}.pem").write_text(self.pem)
        (folder / f"{name}-key.pem").touch(mode=0o600)
        (folder / f"{name}-key.pem").write_text(self.key_pem)


def made(
    name: str = "own",
    *,
    above: Made | None = None,
    key: Any = None,
    starts: float = -10,
    days: float = 3650,
    basic: x509.BasicConstraints | None = CA,
    usage: x509.KeyUsage | None = key_usage(*SIGNS),  # noqa: B008 - never changed
    extensions: Sequence[x509.ExtensionType] = (),
    identified: bool = True,
) -> Made:
    """An authority that `above` has issued, or its own root, valid from `starts` to `days`, both in
    days from now."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer = above.key if above else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above.chain[0].subject if above else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + datetime.timedelta(days=starts))
        .not_valid_after(NOW + datetime.timedelta(days=days))
    )
    if identified:
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
    if basic:
        builder = builder.add_extension(basic, critical=True)
    if usage:
        builder = builder.add_extension(usage, critical=True)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    if isinstance(signer, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        certificate = builder.sign(signer, None)
    else:
        certificate = builder.sign(signer, hashes.SHA256())
    return Made(chain=(certificate, *(above.chain if above else ())), key=key)


def intermediate(name: str = "issuing", **settings: Any) -> Made:
    """An authority below a root of its own."""
    return made(name, above=made("root"), **settings)
