"""One run at a time for each thing that is built. Standard library only."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.errors import explained
from toolchain.progress import Step

# The kernel has no lock wait with a time limit, and a waiting run must keep reporting.
_RETRY_S = 0.1


@contextmanager
def exclusive(path: Path, step: Step) -> Iterator[int]:
    """Holds the lock file `path`; yields its descriptor.

    Pass the descriptor to child processes (`pass_fds`): the kernel then keeps the lock until the
    last of them is gone, even if this process was killed, so that no other run cleans up or builds
    beside an orphan that is still writing.
    """
    descriptor = _opened(path)
    try:
        if not _acquired(descriptor):
            elsewhere = f"{path.stem} is being made"  # by this run or another one
            step.enter("waiting", elsewhere)
            while not _acquired(descriptor):
                time.sleep(_RETRY_S)
                step.tick(elsewhere)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_now(path: Path) -> Iterator[bool]:
    """Holds the lock file unless somebody else does; yields whether it does."""
    descriptor = _opened(path)
    try:
        yield _acquired(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    with explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _acquired(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
