"""Tools that are already on PATH in the pinned version."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from toolchain.errors import UnavailableError
from toolchain.pins import ToolPin
from toolchain.sources import Attempt, Obtained, check_versions

PROOF = "installed by you"
KEY_PREFIX = "path-"
_CHECKOUTS_FOLDER = ".slipway"


def find(pin: ToolPin, path: str, cache: Path) -> dict[str, Path]:
    """Binary name to file, for all binaries of a tool. UnavailableError when one is missing."""
    search = os.pathsep.join(
        entry for entry in path.split(os.pathsep) if not _is_ours(entry, cache)
    )
    found = {binary: shutil.which(binary, path=search) for binary in pin.binaries}
    missing = [binary for binary, file in found.items() if file is None]
    if missing:
        raise UnavailableError(f"no {' and no '.join(missing)} on PATH")
    return {binary: Path(file).absolute() for binary, file in found.items() if file is not None}


def _is_ours(entry: str, cache: Path) -> bool:
    """Whether a folder on PATH is Slipway's own: `slipway env` puts a checkout's there."""
    return entry.startswith(str(cache)) or _CHECKOUTS_FOLDER in Path(entry).parts


def fetch(attempt: Attempt) -> Obtained:
    """Links the binaries found on PATH."""
    found = find(attempt.pin, attempt.settings.path, attempt.settings.cache)
    attempt.step.enter("checking", f"the version of {found[attempt.pin.binaries[0]]}")
    for binary, file in found.items():
        (attempt.staging / binary).symlink_to(file)
    check_versions(attempt.pin, attempt.staging)
    return Obtained(key=key(found), proof=PROOF)


def key(found: dict[str, Path]) -> str:
    """Names one set of files on PATH."""
    names = "\0".join(str(file) for _, file in sorted(found.items()))
    return KEY_PREFIX + hashlib.sha256(names.encode()).hexdigest()[:12]
