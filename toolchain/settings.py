"""The settings of the toolchain, all of them environment variables.

SLIPWAY_CACHE             folder of everything that can be recreated
SLIPWAY_TOOL_SOURCES      which sources, in which order: path,archive,wheel,module
SLIPWAY_MIRROR            base address that serves the vendors' archives under their own file names
SLIPWAY_MIRROR_CHECKSUMS  file of `<sha256>  <file name>` lines (the form of the vendors' own
                          checksum files); by default <config>/slipway/checksums.txt
SLIPWAY_KEEP_BUILDS       not empty: `up` leaves what builds have left in the cache

No variable sets what proves a vendor's archive: its key and the sums first seen are files of the
checkout.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.archives_lock import ArchivesLock
from toolchain.errors import ToolchainError
from toolchain.pins import HERE
from toolchain.sums import SumsError, read_sums
from toolchain.vendors import Vendors, pinned_vendors

SOURCES = ("path", "archive", "wheel", "module")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`checksums` maps an archive's file name to its SHA-256 in lower-case hex, as the operator has
    given it; `lock_file` has the sums that this checkout saw first."""

    cache: Path
    sources: tuple[str, ...] = SOURCES
    mirror: str | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    keep_builds: bool = False
    lock_file: Path = HERE / "archives.lock"
    vendors: Vendors = field(default_factory=pinned_vendors)

    @property
    def archives_lock(self) -> ArchivesLock:
        return ArchivesLock(file=self.lock_file)

    @classmethod
    def read(cls, cache: Path, environ: Mapping[str, str] = os.environ) -> Settings:
        """Raises ToolchainError (exit code 2) for an invalid value."""
        return cls(
            cache=cache,
            sources=_sources(environ.get("SLIPWAY_TOOL_SOURCES", "")),
            mirror=environ.get("SLIPWAY_MIRROR", "").rstrip("/") or None,
            checksums=_checksums(environ),
            path=environ.get("PATH", os.defpath),
            keep_builds=bool(environ.get("SLIPWAY_KEEP_BUILDS")),
        )


def default_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """SLIPWAY_CACHE, else XDG_CACHE_HOME/slipway, else ~/.cache/slipway; absolute."""
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(environ.get("SLIPWAY_CACHE") or Path(base) / "slipway").absolute()


def _sources(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(set(names) - set(SOURCES))
    if unknown:
        raise ToolchainError(
            f"SLIPWAY_TOOL_SOURCES={text}: unknown source: {', '.join(unknown)}",
            fix=f"use some of: {','.join(SOURCES)}",
            exit_code=2,
        )
    return names or SOURCES


def _checksums(environ: Mapping[str, str]) -> Mapping[str, str]:
    given = environ.get("SLIPWAY_MIRROR_CHECKSUMS")
    config = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(given) if given else Path(config) / "slipway" / "checksums.txt"
    try:
        text = path.read_text()
    except FileNotFoundError:
        if given is None:
            return {}
        raise ToolchainError(
            f"SLIPWAY_MIRROR_CHECKSUMS: {path} does not exist",
            fix="name a file of `<sha256>  <file name>` lines",
            exit_code=2,
        ) from None
    try:
        return read_sums(text)
    except SumsError as error:
        raise ToolchainError(
            f"{path}, {error}",
            fix="write `<64 hex digits of the SHA-256>  <file name>` once for each file, as the "
            "vendors do",
            exit_code=2,
        ) from error
