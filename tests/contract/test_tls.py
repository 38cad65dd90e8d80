"""The tls resources through the official SDK and the real CLI."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.verification import PolicyBuilder, Store

from tests.contract.authority import AUTHORITY, new_authority, new_key, request, sign, written
from tests.contract.operations import recorded
from tests.contract.stack import Stack
from tests.unit.certificates.own_authorities import made
from toolchain.plugins.resource import ProviderError
from toolchain.plugins.tls_certificate import LocallySignedCert, SelfSignedCert

pytestmark = pytest.mark.binaries

PROGRAM = """
import pulumi_tls
from tests.contract.authority import request
key, own_key = pulumi.Output.secret(ca_key), pulumi.Output.secret(server_key)
ca = pulumi_tls.SelfSignedCert(
    "ca",
    private_key_pem=key,
    subject=pulumi_tls.SelfSignedCertSubjectArgs(common_name="ca", organization="tests"),
    validity_period_hours=20,
    allowed_uses=["cert_signing", "crl_signing"],
    is_ca_certificate=True,
)
cert = pulumi_tls.LocallySignedCert(
    "cert",
    cert_request_pem=own_key.apply(lambda pem: request(pem, "server.test")),
    ca_private_key_pem=key,
    ca_cert_pem=ca.cert_pem,
    validity_period_hours=10,
    early_renewal_hours=early,
    allowed_uses=["digital_signature", "server_auth"],
)
"""
CHECKOUT = str(Path(__file__).resolve().parents[2])


def certificate(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def verify(ca_pem: str, cert_pem: str, name: str) -> None:
    """Raises VerificationError unless a client that trusts the authority would accept it."""
    policy = PolicyBuilder().store(Store([certificate(ca_pem)]))
    policy.build_server_verifier(x509.DNSName(name)).verify(certificate(cert_pem), [])


def test_an_authority_signs_certificates_that_are_renewed_in_time(stack: Stack) -> None:
    stack.variables = {"PYTHONPATH": CHECKOUT}
    keys = {"ca_key": new_key(), "server_key": new_key()}
    stack.program(PROGRAM, **keys, early=1)
    created = stack.up()
    assert created.ok, created.output
    ca, first = stack.outputs("ca"), stack.outputs("cert")
    signed = first["certRequestPem"]["ciphertext"]  # made from a secret, and so one itself
    assert signed
    verify(ca["certPem"], first["certPem"], "server.test")
    assert first["readyForRenewal"] is False
    assert (ca["keyAlgorithm"], first["caKeyAlgorithm"]) == ("ECDSA", "ECDSA")
    assert stack.state()["cert"]["id"] == str(certificate(first["certPem"]).serial_number)
    assert stack.files_with("PRIVATE KEY") == []
    assert stack.files_with("BEGIN CERTIFICATE") != []  # the search would have found a key
    assert stack.preview("--expect-no-changes").ok

    stack.program(PROGRAM, **keys, early=2)
    assert stack.up().steps == [("update", "cert")]
    assert stack.outputs("cert")["certPem"] == first["certPem"]

    replaced = [("create-replacement", "cert"), ("replace", "cert"), ("delete-replaced", "cert")]
    stack.program(PROGRAM, **keys, early=10)  # as long as it is valid: always time
    assert stack.up().steps == replaced
    second = stack.outputs("cert")
    assert second["readyForRenewal"] is True
    verify(ca["certPem"], second["certPem"], "server.test")
    assert stack.outputs("ca")["certPem"] == ca["certPem"]


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "ECDSA"),
        (ec.generate_private_key(ec.SECP384R1()), "ECDSA"),
        (ec.generate_private_key(ec.SECP521R1()), "ECDSA"),
        (ed25519.Ed25519PrivateKey.generate(), "ED25519"),
        (rsa.generate_private_key(65537, 2048), "RSA"),
    ],
    ids=["P-256", "P-384", "P-521", "ED25519", "RSA"],
)
def test_a_key_of_every_kind_signs(key: Any, algorithm: str) -> None:
    authority = new_authority(privateKeyPem=written(key))
    assert authority["keyAlgorithm"] == algorithm
    own = certificate(authority["certPem"])
    own.verify_directly_issued_by(own)
    leaf = sign(authority, request(new_key(), "server.test"))
    assert leaf["caKeyAlgorithm"] == algorithm
    certificate(leaf["certPem"]).verify_directly_issued_by(own)
    identifiers = x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier
    of_own, of_leaf = (
        each.extensions.get_extension_for_class(kind).value
        for each, kind in zip((own, certificate(leaf["certPem"])), identifiers, strict=True)
    )
    assert of_leaf.key_identifier == of_own.digest


OF_USER = """
import pulumi_tls
from tests.contract.authority import request
pulumi_tls.LocallySignedCert(
    "cert",
    cert_request_pem=request(server_key, "server.test"),
    ca_private_key_pem=pulumi.Output.secret(ca_key),
    ca_cert_pem=ca_cert,
    validity_period_hours=10,
    early_renewal_hours=early,
    allowed_uses=["digital_signature", "server_auth"],
)
"""


def test_an_authority_that_has_expired_keeps_nobody_from_a_refresh_a_preview_or_the_end(
    stack: Stack,
) -> None:
    """The user's own, also where what it signed is to be renewed. Its key is nowhere in plain."""
    own = made(key=rsa.generate_private_key(65537, 2048), starts=-20, days=-10)
    stack.variables = {"PYTHONPATH": CHECKOUT}
    given = {"ca_cert": own.pem, "ca_key": own.key_pem, "server_key": new_key()}
    stack.program(OF_USER, **given, early=1)
    created = stack.up()
    assert created.ok, created.output
    assert stack.outputs("cert")["caPrivateKeyPem"]["ciphertext"]
    stack.program(OF_USER, **given, early=10)  # as long as it is valid: always time to renew
    shown = [stack.refresh(), stack.preview(), stack.preview("--diff", "--json")]
    assert [each.ok for each in shown] == [True] * 3, shown
    line = own.key_pem.splitlines()[3]
    assert (stack.project / "__main__.py").read_text().count(line) == 1  # the search finds it
    (stack.project / "__main__.py").unlink()
    assert [line in each.output for each in (created, *shown)] == [False] * 4
    assert stack.files_with(line) == []
    ended = stack.destroy()
    assert ended.ok, ended.output


@pytest.mark.stand_in
def test_a_resource_that_the_plugin_does_not_have_is_refused_by_its_type(stack: Stack) -> None:
    stack.program('import pulumi_tls\npulumi_tls.PrivateKey("key", algorithm="ED25519")')
    refused = stack.preview()
    assert not refused.ok
    assert "the registry-only tls plugin has no tls:index/privateKey:PrivateKey; it" in refused.text


def test_a_self_signed_certificate_says_what_it_was_given() -> None:
    given = new_authority(
        subject={"commonName": "a", "organization": "b"},
        allowedUses=["cert_signing", "digital_signature", "client_auth"],
    )
    made = certificate(given["certPem"])
    assert made.subject.rfc4514_string() == "CN=a,O=b"
    found: dict[str, Any] = {type(each.value).__name__: each for each in made.extensions}
    uses = found["KeyUsage"].value
    assert (uses.key_cert_sign, uses.digital_signature, uses.crl_sign) == (True, True, False)
    assert [use._name for use in found["ExtendedKeyUsage"].value] == ["clientAuth"]
    assert found["BasicConstraints"].value.ca
    critical = {name for name, extension in found.items() if extension.critical}
    assert critical == {"BasicConstraints", "KeyUsage"}
    assert found.keys() == {*critical, "ExtendedKeyUsage", "SubjectKeyIdentifier"}
    span = made.not_valid_after_utc - made.not_valid_before_utc
    assert span.total_seconds() == 2 * 3600
    assert datetime.fromisoformat(given["validityEndTime"]) == made.not_valid_after_utc


def test_an_authority_without_a_subject_and_a_foreign_key_are_refused() -> None:
    with pytest.raises(ProviderError, match="subject of a certificate authority"):
        new_authority(subject={})
    with pytest.raises(ProviderError, match="error creating certificate"):
        new_authority(privateKeyPem="no key")


def test_an_expired_certificate_is_seen_by_a_refresh_and_replaced() -> None:
    authority = new_authority()
    expired = sign(authority, request(new_key(), "x"), validityPeriodHours=0)
    found = LocallySignedCert().read(recorded({**expired, "readyForRenewal": False}))
    assert found is not None
    assert found.outputs["readyForRenewal"] is True
    assert "readyForRenewal" in LocallySignedCert().diff(found, expired).replaces


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({"allowedUses": ["server_auth", "everything"]}, "allowedUses"),
        ({"subject": {"emailAddress": "a@b"}}, "subject"),
        ({"dnsNames": ["a.test"]}, "dnsNames"),
        ({"setAuthorityKeyId": True}, "setAuthorityKeyId"),
        ({"maxPathLength": 1}, "maxPathLength"),
        ({"privateKeyPemWo": "secret"}, "privateKeyPemWo"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(inputs: dict[str, Any], complaint: str) -> None:
    assert list(SelfSignedCert().check({**AUTHORITY, **inputs})) == [complaint]
