"""tls:index/selfSignedCert:SelfSignedCert and tls:index/locallySignedCert:LocallySignedCert."""

import secrets
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from toolchain.plugins.resource import Difference, Operation, Resource, State, failing_as
from toolchain.plugins.wire import Properties, is_unknown

# In the order of cryptography's arguments.
KEY_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "cert_signing", "crl_signing"),
)
EXTENDED_USES = ("client_auth", "code_signing", "email_protection", "ocsp_signing", "server_auth")
SUBJECT = {"organization": "ORGANIZATION_NAME", "commonName": "COMMON_NAME"}
VALIDITY = ("validityStartTime", "validityEndTime")


class Certificate(Resource):
    """Replaced by every update within `earlyRenewalHours` of its end. Its id is its number."""

    defaults = {"earlyRenewalHours": 0, "isCaCertificate": False, "setSubjectKeyId": False}
    unsupported: Collection[str] = ("caPrivateKeyPemWo", "maxPathLength", "privateKeyPemWo")
    computed: Collection[str] = ("certPem", "readyForRenewal", *VALIDITY)

    def check(self, inputs: Properties) -> dict[str, str]:
        failures = super().check(inputs)
        for name, known in (("allowedUses", KEY_USES + EXTENDED_USES), ("subject", (*SUBJECT,))):
            given = inputs.get(name) or ()
            if not is_unknown(given) and (wrong := sorted(set(given) - set(known))):
                failures[name] = f"{', '.join(wrong)} is none of {', '.join(known)}"
        return failures

    def diff(self, old: State, new: Properties) -> Difference:
        changed = self.changed(old.inputs, new)
        replaces = changed - {"earlyRenewalHours"}
        if _is_ready({**old.outputs, **self.with_defaults(new)}):
            replaces.add("readyForRenewal")
        return Difference(changed=changed | replaces, replaces=replaces)

    def planned(self, new: Properties, old: State | None) -> Properties:
        return {**super().planned(new, old), **(self.update(old, new) if old else {})}

    def read(self, old: State) -> State | None:
        recorded = super().read(old)
        ready = {**old.outputs, "readyForRenewal": _is_ready(old.outputs)}
        return recorded and replace(recorded, outputs=ready)

    def update(self, old: State, new: Properties, operation: Operation | None = None) -> Properties:
        return {**old.outputs, **self.with_defaults(new)}


class SelfSignedCert(Certificate):
    """Signed by its own key: a certificate authority. It has no alternative names."""

    kind = "tls:index/selfSignedCert:SelfSignedCert"
    defaults = {**Certificate.defaults, "setAuthorityKeyId": False}
    unsupported = (*Certificate.unsupported, "dnsNames", "ipAddresses", "setAuthorityKeyId", "uris")
    computed = (*Certificate.computed, "keyAlgorithm")

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        from cryptography import x509

        full, given = self.with_defaults(new), new.get("subject", {})
        with failing_as("creating certificate"):
            key, algorithm = _key(full["privateKeyPem"])
            subject = x509.Name(
                x509.NameAttribute(getattr(x509.NameOID, oid), given[name])
                for name, oid in SUBJECT.items()
                if given.get(name)
            )
            number, issued = _issue(full, (subject, [], key.public_key()), (subject, None, key))
        return number, {**full, **issued, "keyAlgorithm": algorithm}


class LocallySignedCert(Certificate):
    """What a certificate request asks for, signed by a certificate authority."""

    kind = "tls:index/locallySignedCert:LocallySignedCert"
    computed = (*Certificate.computed, "caKeyAlgorithm")

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        from cryptography import x509

        def found(source: Any, kind: type) -> Any:
            values = (extension.value for extension in source.extensions)
            return next((value for value in values if isinstance(value, kind)), None)

        kinds = x509.DNSName, x509.IPAddress, x509.UniformResourceIdentifier
        full = self.with_defaults(new)
        with failing_as("creating certificate"):
            request = x509.load_pem_x509_csr(full["certRequestPem"].encode())
            ca = x509.load_pem_x509_certificate(full["caCertPem"].encode())
            ca_key, algorithm = _key(full["caPrivateKeyPem"])
            asked = found(request, x509.SubjectAlternativeName) or ()
            names = [name for name in asked if isinstance(name, kinds)]
            issuer = ca.subject, found(ca, x509.SubjectKeyIdentifier), ca_key
            number, issued = _issue(full, (request.subject, names, request.public_key()), issuer)
        return number, {**full, **issued, "caKeyAlgorithm": algorithm}


def _issue(
    full: Properties, asked: tuple[Any, list[Any], Any], issuer: tuple[Any, Any, Any]
) -> tuple[str, Properties]:
    """A certificate's number and outputs.

    Args:
        asked: its subject, alternative names and public key.
        issuer: the name, the key identifier (or None) and the private key of who signs it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    (subject, names, public_key), (issuer_name, issuer_id, key) = asked, issuer
    is_ca, uses = full["isCaCertificate"], full["allowedUses"]
    if is_ca and not subject.rdns:
        raise ValueError("the subject of a certificate authority must not be empty")
    extensions: list[tuple[Any, bool]] = [(x509.BasicConstraints(is_ca, None), True)]
    if any(use in KEY_USES for use in uses):
        flags = [use in uses for use in (*KEY_USES, "encipher_only", "decipher_only")]
        extensions += [(x509.KeyUsage(*flags), True)]
    if extended := [use.upper() for use in uses if use in EXTENDED_USES]:
        oids = [getattr(ExtendedKeyUsageOID, name) for name in extended]
        extensions += [(x509.ExtendedKeyUsage(oids), False)]
    if is_ca or full["setSubjectKeyId"]:
        extensions += [(x509.SubjectKeyIdentifier.from_public_key(public_key), False)]
    if issuer_id:
        extensions += [(x509.AuthorityKeyIdentifier(issuer_id.digest, None, None), False)]
    if names:
        extensions += [(x509.SubjectAlternativeName(names), not subject.rdns)]
    number, start = secrets.randbelow(2**128 - 1) + 1, datetime.now(UTC)
    span = {"Start": start, "End": start + timedelta(hours=full["validityPeriodHours"])}
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer_name)
    builder = builder.public_key(public_key).serial_number(number)
    builder = builder.not_valid_before(start).not_valid_after(span["End"])
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    bits = key.curve.key_size if hasattr(key, "curve") else 0
    digest = hashes.SHA512() if bits > 384 else hashes.SHA384() if bits > 256 else hashes.SHA256()
    signed = builder.sign(key, digest if hasattr(key, "key_size") else None)  # not with ED25519
    outputs = {f"validity{name}Time": f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in span.items()}
    outputs["certPem"] = signed.public_bytes(serialization.Encoding.PEM).decode()
    return str(number), {**outputs, "readyForRenewal": _is_ready({**full, **outputs})}


def _key(text: str) -> tuple[Any, str]:
    """A private key and its algorithm."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(text.encode(), None)
    kinds = {"ECDSA": ec.EllipticCurvePrivateKey, "RSA": rsa.RSAPrivateKey}
    return key, next((name for name, kind in kinds.items() if isinstance(key, kind)), "ED25519")


def _is_ready(properties: Properties) -> bool:
    """Whether it is time to renew the certificate."""
    early = properties["earlyRenewalHours"]
    hours = 0 if is_unknown(early) else early
    end = datetime.fromisoformat(properties["validityEndTime"])
    return datetime.now(UTC) >= end - timedelta(hours=hours)
