"""A prepared folder: complete or absent, with a manifest to verify it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MANIFEST = "slipway-manifest.json"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def problem_with(folder: Path, source: Mapping[str, Any]) -> str | None:
    """Why a prepared folder cannot be used; None if every file has its checksum."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError:
        return "it has no manifest"
    except ValueError:
        return "its manifest is not JSON"
    if manifest.get("source") != source:
        return "it was made from another source"
    for name, expected in manifest["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != expected["bytes"]:
            return f"{name} is missing or has another size"
        if sha256_of(file) != expected["sha256"]:
            return f"{name} has another checksum"
    return None


def publish(partial: Path, folder: Path, source: Mapping[str, Any]) -> None:
    """Writes the manifest and renames the finished folder into place, atomically."""
    files = {}
    for file in sorted(path for path in partial.rglob("*") if path.is_file()):
        file.chmod(0o644)
        files[str(file.relative_to(partial))] = {
            "bytes": file.stat().st_size,
            "sha256": sha256_of(file),
        }
        _sync(file)
    manifest = partial / MANIFEST
    text = json.dumps({"schema_version": 1, "source": source, "files": files}, indent=2)
    manifest.write_text(text + "\n", encoding="utf-8")
    _sync(manifest)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    _sync(folder.parent)


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Waits for and holds the lock of a folder. The kernel frees it however its holder ends."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sync(path: Path) -> None:
    """Flushes to the disk: a power cut must not leave a folder that only looks complete."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
