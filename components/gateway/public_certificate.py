"""The certificate that clients are shown, on its way from the operator's files to Envoy.

A Nomad variable that only Envoy's group of tasks may read has the certificate and its key. Nomad
writes both into one file of the task, which Envoy watches: another certificate replaces the file at
once, so Envoy never sees the key of one with the certificate of another. Connections stay open, and
new ones are shown the new certificate.
"""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from components.certificates.envoy_secrets import TLS
from components.certificates.task import FOLDER, group_variable_path
from components.nomad.jobspec import LEFT_DELIMITER, RIGHT_DELIMITER, File
from slipway.plan.platform import CertificatePlan

GROUP = "envoy"
SECRET = "public"  # noqa: S105  (the name of Envoy's resource)
PATH = f"{FOLDER}/{SECRET}.json"  # services/xds gets it as an argument
CHAIN, KEY = "cert", "key"  # of the variable


class ChangedError(Exception):
    """The files changed after the plan was made."""


def variable_of(job_id: str) -> str:
    return group_variable_path(job_id, GROUP)


def secret_file(job_id: str) -> File:
    """Envoy's resource with the certificate and its key."""
    chain, key = _item(job_id, CHAIN), _item(job_id, KEY)
    resource = (
        f'{{"@type": "{TLS}.Secret", "name": "{SECRET}", "tls_certificate": {{'
        f'"certificate_chain": {{"inline_string": {chain}}},'
        f' "private_key": {{"inline_string": {key}}}}}}}'
    )
    return File(
        path=PATH,
        content=f'{{"resources": [{resource}]}}\n',
        templates=(chain, key),
        change_mode="noop",
    )


def read(certificate: CertificatePlan) -> dict[str, str]:
    """The items of the variable: both files without whatever else they contain.

    Relative names are those of files in the current folder, which is the checkout in Pulumi's
    program.

    Raises ChangedError if a file is not the one that the plan was made from, and OSError or
    ValueError if it cannot be read any more.
    """
    chain = x509.load_pem_x509_certificates(_file(certificate.cert).read_bytes())
    key = serialization.load_pem_private_key(_file(certificate.key).read_bytes(), password=None)
    shown = chain[0].fingerprint(hashes.SHA256()).hex()
    if shown != certificate.fingerprint or chain[0].public_key() != key.public_key():
        raise ChangedError(f"{certificate.cert} or {certificate.key} has changed since it was read")
    return {
        CHAIN: "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in chain),
        KEY: key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    }


def _file(name: str) -> Path:
    return Path(name).expanduser()


def _item(job_id: str, name: str) -> str:
    """As JSON, with its quotes. The template's own are Go's for raw strings."""
    opening = f"{LEFT_DELIMITER} with nomadVar `{variable_of(job_id)}` {RIGHT_DELIMITER}"
    value = f"{LEFT_DELIMITER} .{name}.Value | toJSON {RIGHT_DELIMITER}"
    return f"{opening}{value}{LEFT_DELIMITER} end {RIGHT_DELIMITER}"
