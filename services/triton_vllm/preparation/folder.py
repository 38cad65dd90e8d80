"""A prepared folder: complete or absent, with a manifest to verify it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "slipway-manifest.json"
HASHED_AT_ONCE = 8  # by then disks are the limit
BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    size_bytes: int
    sha256: str


def sha256_of(path: Path) -> str:
    digest, buffer = hashlib.sha256(), bytearray(BUFFER_BYTES)
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer):
            digest.update(memoryview(buffer)[:read])
    return digest.hexdigest()


def problem_with(
    folder: Path, source: Mapping[str, Any], given: Mapping[str, FileFacts] | None = None
) -> str | None:
    """Why a prepared folder cannot be used; None if every file has its checksum. `given` is what it
    must have, if the model file says so."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError:
        return "it has no manifest"
    except ValueError:
        return "its manifest is not JSON"
    if manifest.get("source") != source:
        return "it was made from another source"
    if given is not None and manifest["files"] != files_json(given):
        return "the model file lists other files"
    return _problem_with_files(folder, manifest["files"])


def publish(
    partial: Path,
    folder: Path,
    source: Mapping[str, Any],
    known: Mapping[str, str] | None = None,
) -> None:
    """Writes the manifest and renames the finished folder into place, atomically. `known` are the
    checksums of exactly its files, where the caller has computed them."""
    manifest = partial / MANIFEST
    for left in (manifest, _new(manifest)):  # by a run that was killed here
        left.unlink(missing_ok=True)
    names = sorted(str(f.relative_to(partial)) for f in partial.rglob("*") if f.is_file())
    if known is not None:
        for other in set(names) - known.keys():
            (partial / other).unlink()
        names = sorted(known)
    for name in names:
        (partial / name).chmod(0o644)
        sync(partial / name)
    sha256 = _sha256_of_each(partial, names) if known is None else known
    files = {
        name: FileFacts(size_bytes=(partial / name).stat().st_size, sha256=sha256[name])
        for name in names
    }
    write_json(manifest, {"schema_version": 1, "source": source, "files": files_json(files)})
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    sync(folder.parent)


def files_json(files: Mapping[str, FileFacts]) -> dict[str, Any]:
    return {
        name: {"bytes": facts.size_bytes, "sha256": facts.sha256} for name, facts in files.items()
    }


def files_of(content: Mapping[str, Any]) -> dict[str, FileFacts]:
    """The inverse of `files_json`."""
    return {
        name: FileFacts(size_bytes=int(facts["bytes"]), sha256=str(facts["sha256"]))
        for name, facts in content.items()
    }


def write_json(path: Path, content: Any) -> None:
    """Writes a document that is whole after a power cut, or absent."""
    new = _new(path)
    new.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    sync(new)
    new.rename(path)


def _new(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Waits for and holds the lock of a folder. The kernel frees it however its holder ends."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _problem_with_files(folder: Path, expected: Mapping[str, Any]) -> str | None:
    for name, facts in expected.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != facts["bytes"]:
            return f"{name} is missing or has the wrong size"
    for name, sha256 in _sha256_of_each(folder, expected).items():
        if sha256 != expected[name]["sha256"]:
            return f"{name} has the wrong checksum"
    return None


def _sha256_of_each(folder: Path, names: Mapping[str, Any] | list[str]) -> dict[str, str]:
    """Several files at a time: one core hashes more slowly than fast disks read."""
    with ThreadPoolExecutor(min(HASHED_AT_ONCE, os.cpu_count() or 1)) as pool:
        return dict(zip(names, pool.map(lambda name: sha256_of(folder / name), names), strict=True))


def sync(path: Path) -> None:
    """Flushes to the disk: a power cut must not leave a folder that only looks complete."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
