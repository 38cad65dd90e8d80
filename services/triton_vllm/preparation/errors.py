"""The failures of the weights step, each with its fix."""

from __future__ import annotations

import errno
import shutil

from replica.errors import InputError, RunError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class SourceError(InputError):
    """The document's source has a mistake at `key` ("source.sha256")."""

    def __init__(self, key: str, message: str, *, fix: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.fix = fix


class MachineError(RunError):
    """A failure of registry, disk or memory; the source may be right."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def explained(error: OSError) -> MachineError:
    """No space, no permission, a folder that cannot be read."""
    if isinstance(error, shutil.Error):  # of copytree: one (source, target, reason) per file
        reason = "; ".join(str(reason) for _, _, reason in error.args[0])
    else:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    full = error.errno in _FULL or "No space left" in reason
    return MachineError(
        reason,
        fix="free some disk space (`df -h` shows it)"
        if full
        else "make it accessible to the user who runs this",
    )
