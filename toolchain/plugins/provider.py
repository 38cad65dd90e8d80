"""A registry-only provider: NAME VERSION … ENGINE_ADDRESS."""

from toolchain.plugins.lean_imports import skip_package_code

skip_package_code("pulumi", "runtime", "runtime.proto")

from toolchain.plugins import (  # noqa: E402
    consul_keys,
    local_command,
    nomad_job,
    random_password,
)
from toolchain.plugins.process import serve  # noqa: E402
from toolchain.plugins.server import ProviderServer  # noqa: E402

MODULES = {
    "command": local_command,
    "consul": consul_keys,
    "nomad": nomad_job,
    "random": random_password,
}


def main(arguments: list[str]) -> None:
    name, version, *_, engine_address = arguments
    provider = MODULES[name]
    server = ProviderServer(name, version, provider.CONFIG_KEYS, provider.resources, engine_address)
    serve(server.register, server.stop)
