"""Where resolved tools are kept: content-keyed folders, and a stable name for each.

<cache>/tools/<tool>/<version>-<key>/<binary>   filled aside, then renamed: complete or absent
<cache>/tools/bin/<tool>-<version>              symlink to the one in use
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolchain.errors import explained
from toolchain.pins import ToolPin

_PROVENANCE = "provenance.json"


@dataclass(frozen=True, kw_only=True)
class ArchiveOrigin:
    """The SHA-256 of an archive, in lower-case hex, and who vouched for it: the host (with its port
    if it is not the usual one) that served the vendor's sums, and the fingerprint of the key that
    signed them. Both are None for a sum that did not come from the vendor."""

    sha256: str
    host: str | None = None
    signer: str | None = None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a kept tool is from, and its proof (`sources.Obtained`); None if it was kept by a
    version of Slipway that did not record one. `archive` likewise, and for archives only."""

    source: str
    proof: str | None
    archive: ArchiveOrigin | None = None


class ToolStore:
    """The tools under one cache folder. Writers hold the tool's lock (`lock_path`)."""

    def __init__(self, cache: Path) -> None:
        self._tools = cache / "tools"
        self._locks = cache / "locks"

    def lock_path(self, pin: ToolPin) -> Path:
        return self._locks / f"tool-{pin.name}.lock"

    def log_path(self, pin: ToolPin) -> Path:
        return self._tools / pin.name / "build.log"

    def link(self, pin: ToolPin) -> Path:
        """The stable folder name."""
        return self._tools / "bin" / f"{pin.name}-{pin.version}"

    def in_use(self, pin: ToolPin, keys: frozenset[str]) -> Provenance | None:
        """Where the tool in use is from; None unless it is intact and has one of `keys`."""
        provenance = _intact(pin, self.link(pin).resolve())
        if provenance is None or provenance["key"] not in keys:
            return None
        return Provenance(
            source=provenance["source"],
            proof=provenance.get("proof"),
            archive=_origin(provenance),
        )

    def archives(self, pin: ToolPin) -> dict[str, ArchiveOrigin]:
        """The origin of each kept archive of the pinned version by its key, where it is known."""
        home = self._folder(pin, "").parent
        kept = (_provenance(folder) for folder in home.glob(f"{pin.version}-*"))
        origins = {each["key"]: _origin(each) for each in kept if each}
        return {key: origin for key, origin in origins.items() if origin}

    def reuse(self, pin: ToolPin, keys: frozenset[str]) -> bool:
        """Puts an intact tool with one of `keys` in use again, after pins were changed back."""
        folder = self.kept(pin, keys)
        if folder is not None:
            _point(self.link(pin), folder)
        return folder is not None

    def kept(self, pin: ToolPin, keys: frozenset[str]) -> Path | None:
        """The folder of an intact tool with one of `keys`, in use or not."""
        folders = (self._folder(pin, key) for key in sorted(keys))
        return next((folder for folder in folders if _intact(pin, folder)), None)

    @contextmanager
    def staging(self, pin: ToolPin) -> Iterator[Path]:
        """An empty folder to fill; remains of interrupted runs are removed first."""
        home = self._tools / pin.name
        folder = home / ".staging"
        with explained(home):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def publish(
        self,
        pin: ToolPin,
        staging: Path,
        *,
        source: str,
        key: str,
        proof: str,
        archive: ArchiveOrigin | None = None,
    ) -> Path:
        """Makes the filled `staging` the tool in use, in two atomic steps."""
        provenance: dict[str, Any] = {
            "source": source,
            "key": key,
            "proof": proof,
            "archive": asdict(archive) if archive else None,
            "binaries": _stamps(pin, staging),
        }
        (staging / _PROVENANCE).write_text(json.dumps(provenance, indent=2, sort_keys=True) + "\n")
        for file in staging.iterdir():
            if not file.is_symlink():
                _flush(file)
        folder = self._folder(pin, key)
        # It exists only if it is not intact; otherwise `reuse` would have found it.
        shutil.rmtree(folder, ignore_errors=True)
        staging.rename(folder)
        _point(self.link(pin), folder)
        return folder

    def _folder(self, pin: ToolPin, key: str) -> Path:
        return self._tools / pin.name / f"{pin.version}-{key}"


def _intact(pin: ToolPin, folder: Path) -> dict[str, Any] | None:
    """The provenance of a folder whose binaries are as they were when it was filled."""
    provenance = _provenance(folder)
    if provenance is None or not all(
        os.access(folder / binary, os.X_OK) for binary in pin.binaries
    ):
        return None
    return provenance if provenance["binaries"] == _stamps(pin, folder) else None


def _provenance(folder: Path) -> dict[str, Any] | None:
    try:
        provenance: dict[str, Any] = json.loads((folder / _PROVENANCE).read_text())
    except (OSError, ValueError):
        return None
    return provenance


def _origin(provenance: Mapping[str, Any]) -> ArchiveOrigin | None:
    recorded = provenance.get("archive")
    return ArchiveOrigin(**recorded) if recorded else None


def _stamps(pin: ToolPin, folder: Path) -> dict[str, list[int]]:
    """Size and modification time of each binary, which tell when one on PATH was replaced."""
    stats = {binary: (folder / binary).stat() for binary in pin.binaries}
    return {binary: [stat.st_size, stat.st_mtime_ns] for binary, stat in stats.items()}


def _flush(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _point(link: Path, folder: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    partial = link.parent / f".{link.name}.partial"
    partial.unlink(missing_ok=True)
    partial.symlink_to(os.path.relpath(folder, link.parent))
    partial.replace(link)
