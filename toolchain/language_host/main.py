"""`pulumi-language-python`: ENGINE_ADDRESS is the last argument."""

from toolchain.plugins.lean_imports import skip_package_code

skip_package_code("pulumi", "runtime", "runtime.proto")

from toolchain.language_host.host import LanguageHost  # noqa: E402
from toolchain.plugins.process import serve  # noqa: E402


def main(arguments: list[str]) -> None:
    host = LanguageHost(engine_address=arguments[-1])
    serve(host.register, host.stop)
