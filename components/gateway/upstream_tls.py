"""TLS from Envoy to other parts of the platform: it verifies their name and shows its certificate.

Envoy gets certificates as secrets, from files that name the PEM files: it reads these again when
they are renewed, and keeps its connections.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from components.certificates.task import AUTHORITY, CERTIFICATE, FOLDER, KEY
from components.nomad.jobspec import File

_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
_CERTIFICATE, _AUTHORITY = "certificate", "authority"
_Json = dict[str, Any]


def transport_socket(server_name: str) -> _Json:
    """Of a cluster whose endpoints show a certificate with this name."""
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TLS}.UpstreamTlsContext",
            "sni": server_name,
            "common_tls_context": {
                # As a client Envoy speaks TLS 1.2 at most, unless told otherwise.
                "tls_params": {
                    "tls_minimum_protocol_version": "TLSv1_3",
                    "tls_maximum_protocol_version": "TLSv1_3",
                },
                "tls_certificate_sds_secret_configs": [_secret(_CERTIFICATE)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": server_name}}
                        ]
                    },
                    "validation_context_sds_secret_config": _secret(_AUTHORITY),
                },
            },
        },
    }


def secret_files() -> Iterator[File]:
    """The files in which Envoy finds its secrets; the PEM files are those of the task."""
    watched = {"watched_directory": {"path": FOLDER}}
    yield _file(
        _CERTIFICATE,
        "tls_certificate",
        {
            "certificate_chain": {"filename": CERTIFICATE},
            "private_key": {"filename": KEY},
            **watched,
        },
    )
    yield _file(
        _AUTHORITY, "validation_context", {"trusted_ca": {"filename": AUTHORITY}, **watched}
    )


def _secret(name: str) -> _Json:
    source = {"path_config_source": {"path": _path(name)}, "resource_api_version": "V3"}
    return {"name": name, "sds_config": source}


def _file(name: str, kind: str, content: _Json) -> File:
    secret = {"@type": f"{_TLS}.Secret", "name": name, kind: content}
    text = json.dumps({"resources": [secret]}, indent=2, sort_keys=True) + "\n"
    return File(path=_path(name), content=text)


def _path(name: str) -> str:
    return f"local/{name}.json"
