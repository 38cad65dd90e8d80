"""Lets `pulumi.runtime.proto` be imported without importing `pulumi` itself.

The protocol stubs live inside the `pulumi` wheel, whose package imports the whole SDK: 0.45 s of
CPU, before the first plugin of a run can answer. The stubs need nothing of it.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def skip_package_code(package: str, *subpackages: str) -> None:
    """Register `package` and its `subpackages` ("a", "a.b") as empty packages with real paths.

    For a process that uses nothing else of them: their own code never runs, modules inside them are
    imported as usual. A package that is already imported is left alone.

    Raises:
        ModuleNotFoundError: `package` is not installed for this interpreter.
    """
    if package in sys.modules:
        return
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package named {package!r} for {sys.executable}")
    root = Path(spec.submodule_search_locations[0])
    for subpackage in ("", *subpackages):
        module = ModuleType(f"{package}.{subpackage}".rstrip("."))
        module.__path__ = [str(root.joinpath(*subpackage.split(".")))]
        sys.modules[module.__name__] = module
