"""The users of /dev/shm, by inode: a semaphore is mapped under its temporary file's name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")


def entries() -> dict[str, int]:
    """Name to inode of everything there."""
    found = {}
    for path in FOLDER.iterdir():
        with suppress(FileNotFoundError):
            found[path.name] = path.stat().st_ino
    return found


def used_by(pids: Iterable[int]) -> dict[str, int]:
    """The entries that one of these processes has mapped or open."""
    inodes = {inode for pid in pids for inode in _inodes(Path(f"/proc/{pid}"))}
    return {name: inode for name, inode in entries().items() if inode in inodes}


def unused(among: dict[str, int]) -> list[str]:
    """Those of `among` that still exist although no process uses them."""
    left = {name for name, inode in entries().items() if among.get(name) == inode}
    living = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return sorted(left - used_by(living).keys()) if left else []


def _inodes(process: Path) -> Iterable[int]:
    with suppress(OSError):
        # address perms offset dev inode path
        for line in (process / "maps").read_text(errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(f"{FOLDER}/"):
                yield int(fields[4])
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if descriptor.readlink().is_relative_to(FOLDER):
                    yield descriptor.stat().st_ino
