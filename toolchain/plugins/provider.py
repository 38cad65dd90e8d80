"""A registry-only provider: NAME VERSION … ENGINE_ADDRESS."""

from toolchain.plugins import consul_keys, local_command, nomad_job, random_password
from toolchain.plugins.process import serve
from toolchain.plugins.server import ProviderServer

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
