"""The Python environment of a program: its interpreter, what is installed in it, its variables."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any


class MissingEnvironmentError(Exception):
    """The declared environment cannot be used; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class PythonEnvironment:
    """The interpreter of one program and, where one is declared, its virtual environment."""

    python: Path
    virtualenv: Path | None

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """`inherited` as it is after activating the virtual environment."""
        result = dict(inherited)
        if self.virtualenv is not None:
            result.pop("PYTHONHOME", None)
            result["VIRTUAL_ENV"] = str(self.virtualenv)
            result["PATH"] = os.pathsep.join([str(self.python.parent), result.get("PATH", "")])
        return result

    def site_packages(self) -> list[Path]:
        """The folders with installed packages, found without starting the interpreter."""
        prefix = self.virtualenv or self.python.resolve().parent.parent
        return sorted(prefix.glob("lib*/python3*/site-packages"))

    def distributions(self) -> list[tuple[str, str]]:
        """(name, version) of every installed distribution, sorted."""
        folders = [str(folder) for folder in self.site_packages()]
        return sorted({(d.name, d.version) for d in metadata.distributions(path=folders)})

    def plugin_manifests(self) -> Iterator[dict[str, Any]]:
        """The `pulumi-plugin.json` of every installed SDK package that needs a resource plugin."""
        for folder in self.site_packages():
            for path in sorted(folder.glob("*/pulumi-plugin.json")):
                manifest = json.loads(path.read_text())
                if manifest.get("resource"):
                    yield {"name": path.parent.name.removeprefix("pulumi_"), **manifest}


def declared_virtualenv(root: str, options: Mapping[str, Any]) -> Path | None:
    """The `virtualenv` option as an absolute path; a relative one starts at `root`."""
    option = options.get("virtualenv")
    # No resolve(): the interpreter of a virtual environment is a symbolic link out of it.
    return Path(os.path.abspath(Path(root) / option)) if option else None  # noqa: PTH100


def find_environment(root: str, options: Mapping[str, Any]) -> PythonEnvironment:
    """The environment that `runtime.options` of the project at `root` asks for.

    Without a `virtualenv` option it is PULUMI_PYTHON_CMD, else `python3`, else `python` of PATH.

    Raises:
        MissingEnvironmentError: the virtual environment or an interpreter is missing.
    """
    virtualenv = declared_virtualenv(root, options)
    if virtualenv is not None:
        python = virtualenv / "bin" / "python"
        if not python.exists():
            raise MissingEnvironmentError(
                f"the virtual environment {str(virtualenv)!r} (runtime.options.virtualenv) has no "
                "bin/python: create it with `pulumi install`, or correct the option"
            )
        return PythonEnvironment(python=python, virtualenv=virtualenv)
    names = [os.environ.get("PULUMI_PYTHON_CMD"), "python3", "python"]
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        raise MissingEnvironmentError(
            "no python3 on PATH: set runtime.options.virtualenv in Pulumi.yaml"
        )
    return PythonEnvironment(python=Path(found), virtualenv=None)
