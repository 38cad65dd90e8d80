"""The bootstrap that the platform renders, from its plan's values."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[4]
# The names of peers in certificates.
PEERS = {
    role: f"{role}.test.slipway"
    for role in ("replica", "gateway", "prometheus", "autoscaler", "operator", "introducer")
}


def bootstrap(address: str, *, metrics_port: int, xds_port: int) -> dict[str, Any]:
    """components/gateway/envoy_bootstrap.py applied to a gateway at this address.

    This module is the one place where this service's tests read the rest of the repository: what
    Envoy runs with in the tests is what it runs with in production.
    """
    plan = _module("slipway.plan.platform")
    endpoint = _module("slipway.plan.endpoint")
    renderer = _module("components.gateway.envoy_bootstrap")
    here = endpoint.Endpoint(scheme="http", host=address, port=0)
    envoy = plan.EnvoyPlan(
        name="envoy",
        xds_name="xds",
        pool="edge",
        node="edge-0",
        listener=here,
        metrics=dataclasses.replace(here, port=metrics_port),
        xds=dataclasses.replace(here, port=xds_port),
        xds_http=here,
    )
    return dict(renderer.envoy_bootstrap(envoy, plan.PeerNames(**PEERS)))


def tls_proxy(
    address: str, *, ports: Mapping[str, int], certificate: Path, name: str, clients: Sequence[str]
) -> dict[str, str]:
    """The files of the proxy before a replica (components/serving/tls_proxy.py), by path.

    `ports` are by label; `certificate` is the folder of the node's certificate.
    """
    plan, renderer = _module("slipway.plan.platform"), _module("components.serving.tls_proxy")
    spec = plan.TlsProxySpec(
        server_name=name, clients=tuple(clients), tool="envoy", cpu_mhz=50, memory_bytes=1 << 26
    )
    variables = {"meta.address": address, "meta.certificate": str(certificate)}
    variables |= {f"NOMAD_PORT_{label}": str(port) for label, port in ports.items()}
    return {
        file.path: _rendered(file.content, variables)
        for file in renderer.proxy_task(spec, ports).files
    }


def gateway_secrets(certificate: Path) -> dict[str, str]:
    """The files in which a gateway finds its certificate, by path."""
    secrets = _module("components.certificates.envoy_secrets")
    return {file.path: file.content for file in secrets.secret_files(str(certificate))}


def public_secret(certificate: Mapping[str, str]) -> tuple[str, str]:
    """Path and content of the file in which a gateway finds what it shows clients, as Nomad fills
    it in; `certificate` has cert.pem and key.pem."""
    module = _module("components.gateway.public_certificate")
    file = module.secret_file("envoy")
    content = file.content
    for template, name in zip(file.templates, ("cert.pem", "key.pem"), strict=True):
        content = content.replace(template, json.dumps(certificate[name]))
    return file.path, content


def gateway_transport_socket(server_name: str) -> dict[str, Any]:
    """TLS of the gateway to its control plane (components/envoy/tls.py)."""
    return dict(_module("components.envoy.tls").to_server(server_name))


def certificates() -> Any:
    """An authority that signs what a test asks for."""
    return _module("services.program.tests.certificates").Authority()


def own_der(pem: str) -> bytes:
    """The certificate of a file in DER, without the authorities above it that follow."""
    return bytes(_module("services.program.tests.certificates").own_der(pem))


def _rendered(text: str, variables: Mapping[str, str]) -> str:
    """What Nomad makes of a file."""
    for name, value in variables.items():
        text = text.replace(f"<% env `{name}` %>", value)
    return text


def _module(name: str) -> Any:
    for folder in (_ROOT, _ROOT / "src"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return importlib.import_module(name)
