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
class SignaturePin:
    """A detached signature, in a file beside the archive, by the public key in the file `key`."""

    file_name: str
    key: Path


@dataclass(frozen=True, kw_only=True)
class SumsPin:
    """The vendor's file of SHA-256 sums, beside the archive. Without a signature, HTTPS is the
    only proof of it."""

    file_name: str
    signature: SignaturePin | None = None


@dataclass(frozen=True, kw_only=True)
class ArchivePin:
    """A vendor's release archive (.zip or .tar.gz).

    `members` are glob patterns of the files to extract, all into one folder. What proves it: its
    `sha256`, else the operator's (see `settings`), else the vendor's `sums`. `also_needs` are
    addresses without which its program is of no use.
    """

    address: str
    members: tuple[str, ...]
    sha256: str | None
    sums: SumsPin | None = None
    also_needs: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return self.address.rpartition("/")[2]

    def beside(self, file_name: str) -> str:
        """The address of another file of the same release."""
        return f"{self.address.rpartition('/')[0]}/{file_name}"


@dataclass(frozen=True, kw_only=True)
class ModulePin:
    """A Go build: `folder` has the go.mod and go.sum, `packages` maps binary to package. `build_s`
    is what one took on two cores with empty caches on 2026-11-21, in seconds."""

    folder: Path
    packages: Mapping[str, str]
    cgo: bool
    tags: tuple[str, ...]
    ldflags: tuple[str, ...]
    build_s: float = 0

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
        archive=archive and _archive(archive, version),
        module=module
        and ModulePin(
            folder=HERE / name,
            packages=module["packages"],
            cgo=module["cgo"],
            tags=tuple(module["tags"]),
            ldflags=tuple(flag.format(version=version) for flag in module["ldflags"]),
            build_s=module["build_s"],
        ),
        wheel=wheel
        and WheelPin(requirements=HERE / wheel["requirements"], binaries=wheel["binaries"]),
    )


def _archive(entry: Mapping[str, Any], version: str) -> ArchivePin:
    return ArchivePin(
        address=entry["address"].format(version=version),
        members=tuple(entry["members"]),
        sha256=entry["sha256"],
        sums=_sums(entry["sums"], version),
        also_needs=tuple(entry.get("also_needs", ())),
    )


def _sums(entry: Mapping[str, Any], version: str) -> SumsPin:
    signature = entry.get("signature")
    return SumsPin(
        file_name=entry["file"].format(version=version),
        signature=signature
        and SignaturePin(
            file_name=signature["file"].format(version=version), key=HERE / signature["key"]
        ),
    )
