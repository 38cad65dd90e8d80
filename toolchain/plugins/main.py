"""Entry point of every registry-only provider: NAME VERSION … ENGINE_ADDRESS."""

import importlib
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from toolchain.plugins.lean_imports import skip_package_code  # noqa: E402

skip_package_code("pulumi", "runtime", "runtime.proto")

from toolchain.plugins.process import serve  # noqa: E402
from toolchain.plugins.server import ProviderServer  # noqa: E402

# One module per provider, so that a process imports only its own.
MODULES = {
    "command": "local_command",
    "consul": "consul_keys",
    "nomad": "nomad_job",
    "random": "random_password",
}

if __name__ == "__main__":
    name, version, *_, engine_address = sys.argv[1:]
    module = importlib.import_module(f"toolchain.plugins.{MODULES[name]}")
    server = ProviderServer(name, version, module.CONFIG_KEYS, module.resources, engine_address)
    serve(server.register, server.stop)
