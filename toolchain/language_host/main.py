"""Entry point of `pulumi-language-python`: ENGINE_ADDRESS is the last argument."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from toolchain.plugins.lean_imports import skip_package_code  # noqa: E402

skip_package_code("pulumi", "runtime", "runtime.proto")

from toolchain.language_host.host import LanguageHost  # noqa: E402
from toolchain.plugins.process import serve  # noqa: E402

if __name__ == "__main__":
    host = LanguageHost(engine_address=sys.argv[-1])
    serve(host.register, host.stop)
