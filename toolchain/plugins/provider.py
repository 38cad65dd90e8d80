"""The registry-only providers: NAME VERSION … ENGINE_ADDRESS."""

import os
from collections.abc import Callable, Iterable

from toolchain.plugins.consul_keys import ConsulKeys
from toolchain.plugins.json_api import CERTIFICATE_KEYS, JsonApi, certificates, setting
from toolchain.plugins.local_command import LocalCommand
from toolchain.plugins.nomad_acl_policy import NomadAclPolicy
from toolchain.plugins.nomad_job import NomadJob
from toolchain.plugins.nomad_variable import NomadVariable
from toolchain.plugins.process import serve
from toolchain.plugins.random_password import RandomPassword
from toolchain.plugins.remote_command import RemoteCommand
from toolchain.plugins.resource import Resource
from toolchain.plugins.server import ProviderServer
from toolchain.plugins.tls_certificate import LocallySignedCert, SelfSignedCert
from toolchain.plugins.wire import Properties


def _consul(config: Properties) -> Iterable[Resource]:
    address = setting(
        config, "address", "CONSUL_ADDRESS", "CONSUL_HTTP_ADDR", default="127.0.0.1:8500"
    )
    encrypted = os.environ.get("CONSUL_HTTP_SSL", "").lower() in ("1", "t", "true")
    by_default = "https" if encrypted else "http"
    scheme = setting(config, "scheme", "CONSUL_SCHEME", "CONSUL_HTTP_SCHEME", default=by_default)
    api = JsonApi(
        address=address if "://" in address else f"{scheme}://{address}",
        token_header="X-Consul-Token",  # noqa: S106
        token=setting(config, "token", "CONSUL_HTTP_TOKEN", "CONSUL_TOKEN"),
        token_file=os.environ.get("CONSUL_HTTP_TOKEN_FILE", ""),
        server_name=os.environ.get("CONSUL_TLS_SERVER_NAME", ""),
        certificates=certificates(
            config,
            ("CONSUL_CA_FILE", "CONSUL_CACERT"),
            ("CONSUL_CERT_FILE", "CONSUL_CLIENT_CERT"),
            ("CONSUL_KEY_FILE", "CONSUL_CLIENT_KEY"),
        ),
    )
    return [ConsulKeys(api)]


def _nomad(config: Properties) -> Iterable[Resource]:
    api = JsonApi(
        address=setting(config, "address", "NOMAD_ADDR", default="http://127.0.0.1:4646"),
        token_header="X-Nomad-Token",  # noqa: S106
        token=setting(config, "secretId", "NOMAD_TOKEN"),
        server_name=os.environ.get("NOMAD_TLS_SERVER_NAME", ""),
        certificates=certificates(
            config, ("NOMAD_CACERT",), ("NOMAD_CLIENT_CERT",), ("NOMAD_CLIENT_KEY",)
        ),
    )
    return [NomadJob(api), NomadAclPolicy(api), NomadVariable(api)]


# The settings that each takes, and its resource types.
PROVIDERS: dict[str, tuple[set[str], Callable[[Properties], Iterable[Resource]]]] = {
    "command": (set(), lambda _: [LocalCommand(), RemoteCommand()]),
    "consul": ({"address", "scheme", "token", *CERTIFICATE_KEYS}, _consul),
    "nomad": ({"address", "secretId", *CERTIFICATE_KEYS}, _nomad),
    "random": (set(), lambda _: [RandomPassword()]),
    "tls": (set(), lambda _: [SelfSignedCert(), LocallySignedCert()]),
}


def main(arguments: list[str]) -> None:
    name, version, *_, engine_address = arguments
    server = ProviderServer(name, version, *PROVIDERS[name], engine_address)
    serve(server.register, server.stop)
