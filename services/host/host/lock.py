"""One change of an environment's set of agents at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock

from program.folders import Folders, make_private_folder


@contextmanager
def lock(folders: Folders) -> Iterator[None]:
    make_private_folder(folders.supervisor)
    with (folders.supervisor / "lock").open("w") as file:
        flock(file, LOCK_EX)
        yield
