"""Finds a replica's entries in /dev/shm, and removes them after its processes have gone.

Triton's regions have a prefix set here. vLLM's (Python's `psm_*` and `sem.mp-*`) have random
names: they are known by the inodes that the replica's processes have mapped or open. Names alone
are not enough, since a named semaphore is mapped under the name of its temporary file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108


class SharedMemoryLedger:
    """Names of shared memory seen in use, kept in a file for whichever program cleans up.

    Names are never forgotten before the file is. That is harmless, because removal compares the
    inode as well.
    """

    def __init__(self, file: Path, prefix: str) -> None:
        self._file = file
        self._prefix = prefix
        self._seen: dict[str, int] = {}
        self._written = True
        with contextlib.suppress(OSError, ValueError):
            self._seen = json.loads(file.read_text(encoding="utf-8"))

    def observe(self, pids: Iterable[int]) -> None:
        """Notes what these processes use now.

        Raises OSError if the file cannot be written; the next call tries again.
        """
        inodes = {inode for pid in pids for inode in _used_inodes(pid)}
        seen = {name: inode for name, inode in _entries().items() if inode in inodes}
        if not seen.items() <= self._seen.items():
            self._seen |= seen
            self._written = False
        if not self._written:
            temporary = self._file.with_suffix(".new")
            temporary.write_text(json.dumps(self._seen, sort_keys=True), encoding="utf-8")
            temporary.replace(self._file)
            self._written = True

    def sweep(self) -> list[str]:
        """Removes what still exists; returns the names. No process may use it any more."""
        removed = []
        for name, inode in _entries().items():
            if name.startswith(self._prefix) or self._seen.get(name) == inode:
                with contextlib.suppress(FileNotFoundError):
                    (SHARED_MEMORY / name).unlink()
                    removed.append(name)
        return sorted(removed)


def remove_prefixed(prefix: str) -> None:
    """Removes the entries whose names begin with it. No process may use them any more."""
    for entry in SHARED_MEMORY.glob(f"{prefix}*"):
        entry.unlink(missing_ok=True)


def _entries() -> dict[str, int]:
    """Name to inode of everything in /dev/shm."""
    with os.scandir(SHARED_MEMORY) as entries:
        return {entry.name: entry.inode() for entry in entries}


def _used_inodes(pid: int) -> set[int]:
    inodes: set[int] = set()
    with contextlib.suppress(OSError):
        # address perms offset dev inode path
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(f"{SHARED_MEMORY}/"):
                inodes.add(int(fields[4]))
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if descriptor.readlink().is_relative_to(SHARED_MEMORY):
                    inodes.add(descriptor.stat().st_ino)
    return inodes
