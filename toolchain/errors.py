"""The failures of this package, each with its fix. Standard library only."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ToolchainError(Exception):
    """A failure a person can act on: `message` says what happened, `fix` what to do.

    `exit_code` is 1 for the machine's or the run's fault and 2 for wrong input.
    """

    def __init__(self, message: str, *, fix: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.fix}"


class UnavailableError(Exception):
    """A source cannot provide this tool here; the next one is tried. The text is the reason."""


class CancelledError(Exception):
    """The work was cancelled because another part failed or the run was interrupted."""


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turns a full disk or an unwritable `folder` inside the block into a ToolchainError."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise disk_full(folder) from error
        if error.errno in _NOT_WRITABLE:
            raise ToolchainError(
                f"cannot write {error.filename or folder}: {error.strerror}",
                fix=f"make {folder} writable for you, or set SLIPWAY_CACHE to a folder that is",
            ) from error
        raise


def disk_full(folder: Path) -> ToolchainError:
    """The error for a full disk or an exhausted quota while writing `folder`."""
    return ToolchainError(
        f"no space left while writing {folder}",
        fix="free some disk space (`df -h` shows it), or set SLIPWAY_CACHE to a larger disk",
    )
