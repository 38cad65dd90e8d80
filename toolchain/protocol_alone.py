"""Importing this lets `pulumi.runtime.proto` be imported without the Pulumi SDK around it.

The stubs of the protocol are part of the `pulumi` wheel, whose package imports the whole SDK: a
plugin and a language host only speak the protocol, and need not wait for that. For their process
alone: the SDK cannot be imported after it. An SDK that is already imported is left as it is.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_SDK = "pulumi"


def _leave_out_package_code(subpackages: tuple[str, ...] = ("runtime", "runtime.proto")) -> None:
    """Puts empty packages in place of the SDK's, with the folders in which modules are found."""
    found = importlib.util.find_spec(_SDK)
    for folder in found.submodule_search_locations or () if found else ():
        for name in ("", *subpackages):
            package = ModuleType(f"{_SDK}.{name}".rstrip("."))
            package.__path__ = [str(Path(folder, *name.split(".")))]
            sys.modules[package.__name__] = package


if _SDK not in sys.modules:
    _leave_out_package_code()
