"""The gateway's certificate: what is read of it, and what is refused before anything is touched."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from slipway.certificates.public_certificate import PublicCertificate, read_public_certificate
from slipway.config.document import Origin
from slipway.config.errors import ConfigError, Problem
from slipway.config.gateway import CertificateSettings
from tests.public_certificates import NAME, Issued, PublicAuthority, issue, put, signed_with
from tests.unit.config.checkout import Checkout

AUTHORITY = PublicAuthority()
GOOD = AUTHORITY.issue()
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SETTINGS = CertificateSettings(cert="tls/cert.pem", key="tls/key.pem")


def read(root: Path, settings: CertificateSettings = SETTINGS) -> PublicCertificate:
    origin = Origin(source="Pulumi.dev.yaml", namespace="slipway:")
    now = datetime.datetime.now(datetime.UTC)
    return read_public_certificate(root, settings, origin, now=now)


def refused(root: Path, settings: CertificateSettings = SETTINGS) -> Problem:
    with pytest.raises(ConfigError) as caught:
        read(root, settings)
    (problem,) = caught.value.problems
    assert problem.source == "Pulumi.dev.yaml"
    assert problem.fix
    return problem


def messages(root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(root)
    return [problem.message for problem in caught.value.problems]


def put_chain(
    root: Path, leaf: Issued, others: Sequence[Issued] = (), *, key: str | None = None
) -> None:
    cert = "".join(each.pem for each in (leaf, *others))
    put(root / "tls", cert=cert, key=leaf.key_pem if key is None else key)


def test_a_good_one_is_known_by_its_name_and_fingerprint(tmp_path: Path) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    found = read(tmp_path)
    assert found.name == NAME
    assert found.fingerprint == GOOD.fingerprint
    assert found.expires == GOOD.certificate.not_valid_after_utc.date()
    assert found.warnings == ()
    assert GOOD.key_pem.splitlines()[1] not in repr(found)


@pytest.mark.parametrize(
    "key",
    [
        RSA,
        ec.generate_private_key(ec.SECP384R1()),
    ],
    ids=["RSA", "P-384"],
)
def test_other_kinds_of_keys_are_good_too(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    put_chain(tmp_path, issue(NAME, AUTHORITY.signs, dns_names=[NAME], key=key), [AUTHORITY.signs])
    assert read(tmp_path).name == NAME


def test_the_root_may_end_the_chain_and_its_own_signature_is_of_no_interest(tmp_path: Path) -> None:
    root = signed_with("SHA1", issue("old root", authority=True, key=RSA))
    put_chain(tmp_path, issue(NAME, root, dns_names=[NAME]), [root])
    assert read(tmp_path).name == NAME


@pytest.mark.parametrize(("days", "warned"), [(29.9, True), (30.1, False)])
def test_one_that_expires_within_30_days_is_warned_of(
    tmp_path: Path, days: float, warned: bool
) -> None:
    issued = AUTHORITY.issue(days=days)
    put(tmp_path / "tls", cert=AUTHORITY.chain(issued), key=issued.key_pem)
    expires = issued.certificate.not_valid_after_utc.date()
    expected = (f"tls/cert.pem expires on {expires}: renew it",) if warned else ()
    assert read(tmp_path).warnings == expected


@pytest.mark.parametrize("field", ["cert", "key", "ca"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, field: str) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    settings = SETTINGS.model_copy(update={field: "tls/none.pem"})
    problem = refused(tmp_path, settings)
    assert problem.key == f"slipway:gateway.certificate.{field}"
    assert problem.value == "tls/none.pem"
    assert problem.message == "does not exist"


@pytest.mark.parametrize("name", ["~nobody-at-all/key.pem", "a\0b", ""])
def test_what_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    problem = refused(tmp_path, SETTINGS.model_copy(update={"key": name}))
    assert problem.message.startswith("cannot be read: ")


@pytest.mark.parametrize("field", ["cert", "key", "ca"])
def test_a_folder_is_no_file(tmp_path: Path, field: str) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    problem = refused(tmp_path, SETTINGS.model_copy(update={field: "tls"}))
    assert problem.message == "cannot be read: Is a directory"


NO_CERTIFICATE, NO_KEY = "holds no certificate in PEM form", "is no private key in PEM form"


@pytest.mark.parametrize(
    ("field", "message"), [("cert", NO_CERTIFICATE), ("key", NO_KEY), ("ca", NO_CERTIFICATE)]
)
@pytest.mark.parametrize("content", [b"", b"\x30\x82\x01\x0a\x02", b"-----BEGIN"])
def test_what_is_not_pem_is_refused(
    tmp_path: Path, field: str, message: str, content: bytes
) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    other = tmp_path / "tls/other"
    other.touch(mode=0o600)
    other.write_bytes(content)
    problem = refused(tmp_path, SETTINGS.model_copy(update={field: "tls/other"}))
    assert problem.key == f"slipway:gateway.certificate.{field}"
    assert problem.message == (message if content.isascii() else "is not PEM text")


def test_what_is_around_the_certificates_may_be_in_any_encoding(tmp_path: Path) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    subject = "subject=O = Société\n".encode("latin-1")
    (tmp_path / "tls/cert.pem").write_bytes(subject + AUTHORITY.chain(GOOD).encode())
    assert read(tmp_path).fingerprint == GOOD.fingerprint


def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    key = GOOD.encrypted(serialization.BestAvailableEncryption(b"secret"))
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=key)
    assert refused(tmp_path).message == "is encrypted with a passphrase"


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=AUTHORITY.issue().key_pem)
    problem = refused(tmp_path)
    assert problem.key == "slipway:gateway.certificate.key"
    assert problem.message == f"does not belong to the certificate of CN={NAME}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.chain(GOOD), key=GOOD.key_pem)
    (tmp_path / "tls/key.pem").chmod(mode)
    problem = refused(tmp_path)
    assert problem.message == f"may be used by other users than its owner (mode {mode:04o})"
    assert problem.fix.startswith(f"chmod 600 {tmp_path}/tls/key.pem; ")


def test_a_certificate_twice_is_no_chain_and_still_that_of_the_key(tmp_path: Path) -> None:
    put_chain(tmp_path, GOOD, [GOOD, AUTHORITY.signs])
    assert refused(tmp_path).message.startswith("is not a chain: ")


def test_a_chain_that_begins_with_an_issuer_is_out_of_order(tmp_path: Path) -> None:
    put(tmp_path / "tls", cert=AUTHORITY.signs.pem + GOOD.pem, key=GOOD.key_pem)
    assert "does not begin with the certificate of the key" in messages(tmp_path)


@pytest.mark.parametrize(
    "others",
    [
        [AUTHORITY.root, AUTHORITY.signs],
        [issue("stranger", authority=True)],
        [issue("intermediate", authority=True)],  # the right name, another key
    ],
    ids=["swapped", "stranger", "impostor"],
)
def test_a_certificate_that_did_not_sign_the_one_before_is_out_of_order(
    tmp_path: Path, others: list[Issued]
) -> None:
    put_chain(tmp_path, GOOD, others)
    assert refused(tmp_path).message.startswith("is not a chain: ")


def not_valid(root: Path) -> str:
    """Why clients would refuse now what can be read, which the warning says too."""
    found = read(root)
    (problem,) = found.not_valid
    assert problem.key == "slipway:gateway.certificate.cert"
    assert problem.fix
    assert found.warnings == (f"{problem.place_and_message}: slipway up refuses it",)
    return problem.message


def test_an_expired_one_can_be_read_and_says_so(tmp_path: Path) -> None:
    put_chain(tmp_path, issue(NAME, dns_names=[NAME], starts_in_days=-9, days=-1))
    assert not_valid(tmp_path).startswith(f"the certificate of CN={NAME} expired on ")


def test_an_expired_issuer_can_be_read_and_says_so(tmp_path: Path) -> None:
    issuer = issue("issuer", authority=True, starts_in_days=-9, days=-1)
    put_chain(tmp_path, issue(NAME, issuer, dns_names=[NAME]), [issuer])
    assert not_valid(tmp_path).startswith("the certificate of CN=issuer expired on ")


def test_one_that_is_not_valid_yet_can_be_read_and_says_so(tmp_path: Path) -> None:
    put_chain(tmp_path, issue(NAME, dns_names=[NAME], starts_in_days=1))
    assert not_valid(tmp_path).startswith(f"the certificate of CN={NAME} is not valid before ")


def test_a_short_rsa_key_is_refused(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    put_chain(tmp_path, issue(NAME, dns_names=[NAME], key=key))
    assert refused(tmp_path).message == f"is weak: CN={NAME} has an RSA key of 1024 bits"


def test_a_curve_that_envoy_does_not_accept_is_refused(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256K1())
    put_chain(tmp_path, issue(NAME, dns_names=[NAME], key=key))
    assert "has a kind of key that Envoy does not accept" in refused(tmp_path).message


@pytest.mark.parametrize("algorithm", ["SHA1", "MD5"])
def test_a_broken_hash_is_refused(tmp_path: Path, algorithm: str) -> None:
    issuer = issue("issuer", authority=True, key=RSA)
    put_chain(tmp_path, signed_with(algorithm, issue(NAME, issuer, dns_names=[NAME])), [issuer])
    assert refused(tmp_path).message == f"is weak: CN={NAME} is signed with {algorithm}"


def test_a_clients_certificate_is_refused(tmp_path: Path) -> None:
    put_chain(tmp_path, issue(NAME, dns_names=[NAME], use=ExtendedKeyUsageOID.CLIENT_AUTH))
    assert "is not for servers" in refused(tmp_path).message


def test_one_without_a_dns_name_is_refused(tmp_path: Path) -> None:
    put_chain(tmp_path, issue(NAME))
    assert refused(tmp_path).message.startswith("has no DNS name (subject alternative name)")


@pytest.mark.parametrize(
    ("names", "chosen", "expected"),
    [
        (["*.example.com", "b.example.com", "a.example.com"], None, "b.example.com"),
        (["*.example.com"], "llm.example.com", "llm.example.com"),
        (["a.example.com", "B.example.com"], "b.example.com", "b.example.com"),
    ],
)
def test_the_name_is_the_first_that_is_no_wildcard_or_the_chosen_one(
    tmp_path: Path, names: list[str], chosen: str | None, expected: str
) -> None:
    put_chain(tmp_path, issue("x", dns_names=names))
    assert read(tmp_path, SETTINGS.model_copy(update={"name": chosen})).name == expected


@pytest.mark.parametrize("chosen", ["other.example.com", "a.b.example.org", "example.org"])
def test_a_name_that_the_certificate_does_not_have_is_refused(tmp_path: Path, chosen: str) -> None:
    put_chain(tmp_path, issue("x", dns_names=["a.example.com", "*.example.org"]))
    problem = refused(tmp_path, SETTINGS.model_copy(update={"name": chosen}))
    assert problem.key == "slipway:gateway.certificate.name"
    assert problem.fix == "use one of: a.example.com, *.example.org"


def test_a_wildcard_alone_does_not_say_what_the_gateway_is_called(tmp_path: Path) -> None:
    put_chain(tmp_path, issue("x", dns_names=["*.example.com"]))
    problem = refused(tmp_path)
    assert problem.message.startswith("is for *.example.com only")
    assert problem.fix == "add `name:`, e.g. `name: llm.example.com`"


def test_several_mistakes_come_together(tmp_path: Path) -> None:
    put_chain(
        tmp_path,
        issue(NAME, dns_names=[NAME], use=ExtendedKeyUsageOID.CLIENT_AUTH),
        key=AUTHORITY.issue().key_pem,
    )
    (tmp_path / "tls/key.pem").chmod(0o644)
    assert len(messages(tmp_path)) == 3


def test_a_misspelt_field_is_an_error_of_the_file(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.edit(
        "Pulumi.dev.yaml",
        "  slipway:models:",
        "  slipway:gateway: {certificate: {cert: a, keyy: b}}\n  slipway:models:",
    )
    assert {problem.key for problem in checkout.problems()} == {
        "slipway:gateway.certificate.key",
        "slipway:gateway.certificate.keyy",
    }
