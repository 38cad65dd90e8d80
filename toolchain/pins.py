"""The version of each tool, and where it can come from: the typed form of pins.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toolchain.errors import ToolchainError

HERE = Path(__file__).resolve().parent
_KEY_LENGTH = 12


@dataclass(frozen=True, kw_only=True)
class ArchivePin:
    """A vendor's release archive (.zip or .tar.gz).

    `members` are glob patterns of the files to extract, all into one folder. `sha256` None means
    that the operator must supply it (see `settings`).
    """

    address: str
    members: tuple[str, ...]
    sha256: str | None

    @property
    def file_name(self) -> str:
        return self.address.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class ModulePin:
    """A Go build: `folder` has the go.mod and go.sum, `packages` maps binary to package."""

    folder: Path
    packages: Mapping[str, str]
    cgo: bool
    tags: tuple[str, ...]
    ldflags: tuple[str, ...]

    @property
    def key(self) -> str:
        flags = json.dumps([dict(self.packages), self.cgo, self.tags, self.ldflags])
        parts = (
            (self.folder / "go.mod").read_bytes(),
            (self.folder / "go.sum").read_bytes(),
            flags.encode(),
        )
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:_KEY_LENGTH]


@dataclass(frozen=True, kw_only=True)
class WheelPin:
    """Binaries inside a Python wheel: `binaries` maps name to a glob in the environment."""

    requirements: Path
    binaries: Mapping[str, str]

    @property
    def key(self) -> str:
        return hashlib.sha256(self.requirements.read_bytes()).hexdigest()[:_KEY_LENGTH]


@dataclass(frozen=True, kw_only=True)
class ToolPin:
    """One tool. `binaries[0]` is its main program; all are in one folder."""

    name: str
    version: str
    binaries: tuple[str, ...]
    version_arguments: tuple[str, ...]
    archive: ArchivePin | None = None
    module: ModulePin | None = None
    wheel: WheelPin | None = None


@cache
def tool_pins() -> Mapping[str, ToolPin]:
    """Every pinned tool by name, in the order of their names."""
    document = json.loads((HERE / "pins.json").read_text())
    return {name: _tool(name, entry) for name, entry in sorted(document["tools"].items())}


def tool_pin(name: str) -> ToolPin:
    """The pin of one tool. Raises ToolchainError (exit code 2) for an unknown name."""
    pins = tool_pins()
    if name not in pins:
        raise ToolchainError(
            f"no tool is called {name!r}", fix=f"use one of: {', '.join(pins)}", exit_code=2
        )
    return pins[name]


def _tool(name: str, entry: Mapping[str, Any]) -> ToolPin:
    version = str(entry["version"])
    archive, module, wheel = (entry.get(source) for source in ("archive", "module", "wheel"))
    return ToolPin(
        name=name,
        version=version,
        binaries=tuple(entry["binaries"]),
        version_arguments=tuple(entry["version_arguments"]),
        archive=archive
        and ArchivePin(
            address=archive["address"].format(version=version),
            members=tuple(archive["members"]),
            sha256=archive["sha256"],
        ),
        module=module
        and ModulePin(
            folder=HERE / name,
            packages=module["packages"],
            cgo=module["cgo"],
            tags=tuple(module["tags"]),
            ldflags=tuple(flag.format(version=version) for flag in module["ldflags"]),
        ),
        wheel=wheel
        and WheelPin(requirements=HERE / wheel["requirements"], binaries=wheel["binaries"]),
    )
