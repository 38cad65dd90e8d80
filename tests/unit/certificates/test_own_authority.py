"""A certificate authority that the user brings: what is read of it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from slipway.certificates.own_authority import HIDDEN, ReadAuthority, read_authorities
from slipway.config.errors import ConfigError, Problem
from tests.public_certificates import Issued, signed_with
from tests.unit.certificates.own_authorities import (
    Made,
    intermediate,
    key_usage,
    made,
)
from tests.unit.plan.samples import dev_inputs

OWN = {"cert": "ca.pem", "key": "ca-key.pem"}
FILE = "Pulumi.dev.yaml"
# Made by openssl: the library no longer signs with SHA-1.
WITH_SHA1 = b"""\
-----BEGIN CERTIFICATE-----
MIIBgjCCASigAwIBAgIUZBjlwX5sNY6Z90+XXQfTjXH7DYswCQYHKoZIzj0EATAO
MQwwCgYDVQQDDANvbGQwIBcNMjYxMTI1MTUwMTIwWhgPMjEyNjExMDExNTAxMjBa
MA4xDDAKBgNVBAMMA29sZDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKhNkUhU
fYPHEF/dJdgn2xGC6mxieH6beBXCLUKioGtFWCFKW2EkOPFSdY5pcnB/xc2F2iIA
l4xq7DIyMOxvrGKjYzBhMB0GA1UdDgQWBBTBRa8a6c5ciOP0uvSGBVr7L8q7YTAf
BgNVHSMEGDAWgBTBRa8a6c5ciOP0uvSGBVr7L8q7YTAPBgNVHRMBAf8EBTADAQH/
MA4GA1UdDwEB/wQEAwICBDAJBgcqhkjOPQQBA0kAMEYCIQDpr0xCxkm6u4OWfRX+
TWZIah7rILhNah4f71XXS0FHbAIhAL+NrOpvSVcC5KjLYpaa79vhCgU52u1lpKDO
0TBB/oe9
-----END CERTIFICATE-----
"""


def read(folder: Path, *authorities: Any, **sources: Any) -> list[ReadAuthority]:
    listed = list(authorities or [OWN])
    environment = dev_inputs(security={"authorities": listed}).environment
    given: dict[str, Any] = {"written": {}, "decrypted": {}, "variables": {}, **sources}
    return list(read_authorities(folder, environment, **given).values())


def refused(folder: Path, *authorities: Any, **sources: Any) -> Problem:
    with pytest.raises(ConfigError) as caught:
        read(folder, *authorities, **sources)
    (problem,) = caught.value.problems
    assert problem.source == FILE
    assert problem.fix
    assert "PRIVATE KEY-----\n" not in str(problem)
    return problem


def test_an_authority_is_read_with_its_key(tmp_path: Path) -> None:
    own = made("CN of own", days=3650.5)
    own.write(tmp_path)
    (found,) = read(tmp_path)
    assert (found.certificate, found.key, found.intermediates) == (own.pem, own.key_pem, "")
    assert (found.fingerprint, found.subject) == (own.fingerprint, "CN=CN of own")
    assert found.days_left == 3650
    assert (found.no_key, found.not_valid) == (None, None)
    assert own.key_pem not in repr(found)


def test_of_an_intermediate_only_itself_is_trusted_and_leaves_show_it(tmp_path: Path) -> None:
    own = intermediate()
    own.write(tmp_path)
    (found,) = read(tmp_path)
    signs, root = (Made(chain=(each,), key=None).pem for each in own.chain)
    assert found.certificate == found.intermediates == signs
    assert root not in found.certificate


def test_what_else_the_file_holds_is_not_distributed(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    (tmp_path / "ca.pem").write_text(f"of our société\n{own.pem}\n{own.key_pem}")
    (found,) = read(tmp_path)
    assert found.certificate == own.pem


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["RSA", "P-384", "P-521", "ED25519"],
)
def test_every_kind_of_key_may_sign(tmp_path: Path, key: Any) -> None:
    own = intermediate(key=key)
    own.write(tmp_path)
    (found,) = read(tmp_path)
    assert found.key == own.key_pem


@pytest.mark.parametrize("form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
def test_a_key_gives_the_same_text_in_every_form(tmp_path: Path, form: PrivateFormat) -> None:
    own = made(key=rsa.generate_private_key(65537, 2048))
    own.write(tmp_path)
    text = own.key.private_bytes(Encoding.PEM, form, NoEncryption())
    (tmp_path / "ca-key.pem").write_bytes(text)
    (found,) = read(tmp_path)
    assert found.key == own.key_pem


def test_the_parameters_that_openssl_writes_before_a_key_do_not_matter(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    (tmp_path / "ca-key.pem").write_text(parameters + own.key_pem)
    (found,) = read(tmp_path)
    assert found.key == own.key_pem


# Where the key comes from


def test_a_key_may_be_in_an_environment_variable(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    given = {"cert": "ca.pem", "key_variable": "CA_KEY"}
    (found,) = read(tmp_path, given, variables={"CA_KEY": own.key_pem})
    assert found.key == own.key_pem
    (without,) = read(tmp_path, given)
    assert without.no_key is not None
    assert "security.authorities.0.key_variable: is not set in this shell" in str(without.no_key)


def test_a_key_may_be_a_secret_of_the_stack(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    given = {"cert": "ca.pem", "key_secret": "pki:ca-key"}
    written = {"pki:ca-key": {"secure": "v1:not-readable"}}
    (seen,) = read(tmp_path, given, written=written)  # by a command that cannot decrypt it
    assert (seen.key, seen.no_key) == ("", None)
    (found,) = read(tmp_path, given, written=written, decrypted={"pki:ca-key": own.key_pem})
    assert found.key == own.key_pem
    (offline,) = read(tmp_path, given, written=written, decrypted={"pki:ca-key": HIDDEN})
    assert (offline.key, offline.no_key) == ("", None)
    (without,) = read(tmp_path, given)
    assert without.no_key is not None
    assert without.no_key.fix == "pulumi config set -s dev --secret pki:ca-key < FILE"


def test_a_secret_of_the_stack_in_plain_text_is_refused(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    given = {"cert": "ca.pem", "key_secret": "pki:ca-key"}
    plain = {"pki:ca-key": own.key_pem}
    problem = refused(tmp_path, given, written=plain, decrypted=plain)
    assert "is in plain text in the stack file" in str(problem)
    assert "replace the key" in problem.fix


def test_a_key_whose_file_is_elsewhere_is_missed_by_those_who_sign_only(tmp_path: Path) -> None:
    """Others, such as a colleague who looks at hosts, have no need of it."""
    made().write(tmp_path)
    (tmp_path / "ca-key.pem").unlink()
    (found,) = read(tmp_path, {"cert": "ca.pem", "key": "ca-key.pem"})
    assert found.key == ""
    assert "security.authorities.0.key: does not exist" in str(found.no_key)


def test_one_that_is_only_trusted_needs_no_key(tmp_path: Path) -> None:
    made().write(tmp_path)
    (found,) = read(tmp_path, 1, {"cert": "ca.pem"})
    assert found.key == ""


# What is refused


def both(folder: Path) -> None:
    """Two authorities that have nothing to do with each other, in one file."""
    made().write(folder)
    (folder / "ca.pem").write_text(made("one").pem + made("two").pem)


def reversed_chain(folder: Path) -> None:
    own = intermediate()
    own.write(folder)
    (folder / "ca.pem").write_text(Made(chain=own.chain[::-1], key=None).pem)


def spoilt(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made().write(folder)
        (folder / name).write_bytes(content)

    return write


def own(**settings: Any) -> Callable[[Path], None]:
    return lambda folder: made(**settings).write(folder)


def below(**settings: Any) -> Callable[[Path], None]:
    """An intermediate authority below a root with these settings."""
    return lambda folder: made("issuing", above=made("root", **settings)).write(folder)


def without(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made().write(folder)
        (folder / name).unlink()

    return write


def encrypted(folder: Path) -> None:
    own = made()
    own.write(folder)
    locked = BestAvailableEncryption(b"a passphrase")
    (folder / "ca-key.pem").write_bytes(
        own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    )


def of_another(folder: Path) -> None:
    made().write(folder)
    (folder / "ca-key.pem").write_text(made().key_pem)


def readable_by_others(folder: Path) -> None:
    made().write(folder)
    (folder / "ca-key.pem").chmod(0o640)


def weak_below(folder: Path) -> None:
    """An intermediate authority that a root has signed with MD5."""
    own = made("issuing", above=made("root", key=rsa.generate_private_key(65537, 2048)))
    own.write(folder)
    weak = signed_with("MD5", Issued(own.chain[0], own.key)).certificate
    (folder / "ca.pem").write_text(Made(chain=(weak, *own.chain[1:]), key=None).pem)


def names(*, permitted: Any = None, excluded: Any = None) -> list[x509.NameConstraints]:
    return [x509.NameConstraints(permitted, excluded)]


DIRECTORY = x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")]))
ELSEWHERE = x509.IPAddress(ip_network("10.0.0.0/8"))
BOTH_AUTHORITIES = "CN=one was not issued by CN=two"


@pytest.mark.parametrize(
    ("write", "key", "said"),
    [
        (without("ca.pem"), "cert", "does not exist"),
        (spoilt("ca.pem", b"\x30\x82"), "cert", "is not PEM text"),
        (spoilt("ca.pem", b"a certificate"), "cert", "holds no certificate in PEM form"),
        (spoilt("ca-key.pem", b"a key"), "key", "is no private key in PEM form"),
        (both, "cert", BOTH_AUTHORITIES),
        (reversed_chain, "cert", "CN=root was not issued by CN=issuing"),
        (encrypted, "key", "is encrypted with a passphrase"),
        (of_another, "key", "does not belong to the certificate of CN=own"),
        (readable_by_others, "key", "may be used by other users than its owner (mode 0640)"),
        (own(basic=None), "cert", "CN=own has no CA:TRUE"),
        (own(basic=x509.BasicConstraints(False, None)), "cert", "CN=own has no CA:TRUE"),
        (own(usage=None), "cert", "the key usage of CN=own has no keyCertSign"),
        (own(usage=key_usage("crl_sign")), "cert", "CN=own has no keyCertSign"),
        (
            below(basic=x509.BasicConstraints(ca=True, path_length=0)),
            "cert",
            "CN=root allows 0 authorities below it (pathlen), and there are 1",
        ),
        (
            own(extensions=[x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])]),
            "cert",
            "the extended key usage of CN=own does not name both",
        ),
        (own(identified=False), "cert", "has no subjectKeyIdentifier: nobody could tell CN=own"),
        (
            own(key=rsa.generate_private_key(65537, 1024)),
            "cert",
            "is weak: CN=own has an RSA key of 1024 bits",
        ),
        (spoilt("ca.pem", WITH_SHA1), "cert", "is weak: CN=old is signed with SHA1"),
        (weak_below, "cert", "is weak: CN=issuing is signed with MD5"),
        (
            own(key=ec.generate_private_key(ec.SECP224R1())),
            "cert",
            "is weak: CN=own has a key on the curve secp224r1",
        ),
        (own(key=ed448.Ed448PrivateKey.generate()), "cert", "is of no known kind of key: CN=own"),
        (
            own(extensions=names(permitted=[x509.DNSName("example.com")])),
            "cert",
            "may not sign for server.dev.consul: CN=own constrains names",
        ),
        (
            below(extensions=names(excluded=[x509.DNSName("slipway")])),
            "cert",
            "may not sign for replica.dev.slipway: CN=root constrains names",
        ),
        (
            own(extensions=names(permitted=[ELSEWHERE])),
            "cert",
            "may not sign for addresses of 127.77.0.0/24: CN=own constrains names",
        ),
        (
            own(extensions=names(excluded=[x509.IPAddress(ip_network("127.77.0.16/32"))])),
            "cert",
            "may not sign for addresses of 127.77.0.0/24",
        ),
        (own(extensions=names(permitted=[DIRECTORY])), "cert", "the subjects of the platform"),
    ],
)
def test_what_cannot_sign_for_the_platform_is_refused(
    tmp_path: Path, write: Callable[[Path], None], key: str, said: str
) -> None:
    write(tmp_path)
    problem = refused(tmp_path)
    assert problem.key == f"slipway:security.authorities.0.{key}"
    assert problem.value == OWN[key]
    assert said in problem.message


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    made().write(tmp_path)
    (tmp_path / "ca.pem").unlink()
    (tmp_path / "ca.pem").mkdir()
    assert "cannot be read: Is a directory" in refused(tmp_path).message


@pytest.mark.parametrize("name", ["~nobody-at-all/ca.pem", "a\0b"])
def test_what_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, {"cert": name}).message.startswith("cannot be read: ")


@pytest.mark.parametrize(
    "extensions",
    [
        [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])],
        names(permitted=[x509.RFC822Name("example.com")]),
        names(
            permitted=[x509.DNSName(name) for name in ("consul", "nomad", "slipway", "localhost")]
        ),
        names(permitted=[x509.IPAddress(ip_network("127.0.0.0/8"))]),
        names(excluded=[x509.DNSName("example.com"), ELSEWHERE]),
    ],
    ids=["any use", "mail", "our names", "our addresses", "others excluded"],
)
def test_constraints_that_allow_the_platform_are_accepted(
    tmp_path: Path, extensions: list[x509.ExtensionType]
) -> None:
    made(extensions=extensions).write(tmp_path)
    assert len(read(tmp_path)) == 1


def test_a_shorter_path_below_is_accepted(tmp_path: Path) -> None:
    none_below = x509.BasicConstraints(ca=True, path_length=0)
    intermediate(basic=none_below).write(tmp_path)
    assert len(read(tmp_path)) == 1


def test_the_same_certificate_twice_is_refused(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    own.write(tmp_path, "copy")
    copy = {"cert": "copy.pem", "key": "copy-key.pem"}
    assert "lists the same certificate twice" in refused(tmp_path, OWN, copy).message


# Time, which keeps nobody from a preview or from `down`


@pytest.mark.parametrize(
    ("days", "said"),
    [
        ({"days": -1}, "has expired: CN=own ended "),
        ({"starts": 1}, "is not valid yet: CN=own begins "),
    ],
)
def test_one_whose_time_is_not_now_is_read_and_says_so(
    tmp_path: Path, days: dict[str, float], said: str
) -> None:
    made(**days).write(tmp_path)
    (found,) = read(tmp_path)
    assert found.not_valid is not None
    assert found.not_valid.key == "slipway:security.authorities.0.cert"
    assert found.not_valid.message.startswith(said)


def test_an_intermediate_ends_with_those_above_it(tmp_path: Path) -> None:
    made("issuing", above=made("root", days=-1)).write(tmp_path)
    (found,) = read(tmp_path)
    assert found.not_valid is not None
    assert "CN=root ended" in found.not_valid.message
    assert found.days_left == -2
