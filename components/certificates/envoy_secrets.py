"""How an Envoy gets a certificate: from files that name the PEM files.

Envoy reads these again when the certificate is renewed, and keeps its connections.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from components.nomad.jobspec import File

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
# As a client Envoy speaks TLS 1.2 at most, unless told otherwise.
TLS_PARAMETERS = {
    "tls_minimum_protocol_version": "TLSv1_3",
    "tls_maximum_protocol_version": "TLSv1_3",
}
CERTIFICATE, AUTHORITY = "certificate", "authority"
_Json = dict[str, Any]


def secret(name: str) -> _Json:
    """The certificate (CERTIFICATE) or the authority (AUTHORITY) in a transport socket."""
    source = {"path_config_source": {"path": _path(name)}, "resource_api_version": "V3"}
    return {"name": name, "sds_config": source}


def secret_files(folder: str, *, templates: tuple[str, ...] = ()) -> Iterator[File]:
    """The files that Envoy reads; ca.pem, cert.pem and key.pem are in `folder`, a path that may
    contain `templates`."""
    watched = {"watched_directory": {"path": folder}}
    chain, key, authority = ({"filename": f"{folder}/{name}.pem"} for name in ("cert", "key", "ca"))
    kinds: dict[str, tuple[str, _Json]] = {
        CERTIFICATE: ("tls_certificate", {"certificate_chain": chain, "private_key": key}),
        AUTHORITY: ("validation_context", {"trusted_ca": authority}),
    }
    for name, (kind, content) in kinds.items():
        resource = {"@type": f"{TLS}.Secret", "name": name, kind: {**content, **watched}}
        text = json.dumps({"resources": [resource]}, indent=2, sort_keys=True) + "\n"
        yield File(path=_path(name), content=text, templates=templates)


def _path(name: str) -> str:
    return f"local/{name}.json"
