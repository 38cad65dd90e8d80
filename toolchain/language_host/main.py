"""`pulumi-language-python`: ENGINE_ADDRESS is the last argument."""

from toolchain.language_host.host import LanguageHost
from toolchain.plugins.process import serve


def main(arguments: list[str]) -> None:
    host = LanguageHost(engine_address=arguments[-1])
    serve(host.register, host.stop)
