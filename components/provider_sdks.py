"""Loads of the providers' SDKs only the resources that are used.

`import pulumi_nomad` executes fifty modules and `import pulumi_consul` sixty, for a handful of
classes: a quarter of the processor time of a preview's program. `load_on_use` puts a package in
place of each that finds a class in the module of its name.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Where a generated SDK keeps the nested arguments of all its resources.
_ARGUMENTS = "_inputs"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _OnUse(ModuleType):
    """An SDK's package without the code of its own, which imports every module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for module in (_WORD.sub("_", name).lower(), _ARGUMENTS):
            try:
                found = getattr(importlib.import_module(f"{self.__name__}.{module}"), name, None)
            except ModuleNotFoundError:
                continue
            if found is not None:
                return found
        raise AttributeError(f"{self.__name__} has no {name}")


def load_on_use(*packages: str) -> None:
    """A package that is already imported, or not installed, is left as it is. A package inside
    another one comes after it."""
    for name in packages:
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        if spec is not None:
            sys.modules[name] = _package(spec)
            outer, _, inner = name.rpartition(".")
            if outer:
                setattr(sys.modules[outer], inner, sys.modules[name])


def _package(spec: ModuleSpec) -> ModuleType:
    package = _OnUse(spec.name)
    package.__spec__ = spec
    package.__path__ = list(spec.submodule_search_locations or ())
    package.__file__ = spec.origin
    return package
