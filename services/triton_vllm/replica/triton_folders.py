"""The empty folders that Triton's Python backend leaves in /tmp, one at every start.

Their place is fixed in the backend (TMPDIR does not move it), and they are meant for environments
packed into files, which this service does not use. No process keeps them open, so they are
recognised by the time of their creation. Only empty folders of this user are removed, and only at
the replica's end: by then another Triton that started meanwhile has filled its own, or never will.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

FOLDER = Path("/tmp")  # noqa: S108
PATTERN = "python_env_*"


class TritonFolders:
    """The folders of a launcher's Triton, kept in a file for whichever program cleans up.

    `before_start` comes before its first start, `after_start` after the last.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def before_start(self) -> None:
        self._write({"others": _inodes()})

    def after_start(self) -> None:
        """Called once Triton's model is ready: later folders are not its own."""
        self._write({"own": self._own()})

    def sweep(self) -> list[str]:
        """Removes what still exists; returns the names."""
        removed = []
        for name in self._own():
            with contextlib.suppress(OSError):  # not empty, or already gone
                (FOLDER / name).rmdir()
                removed.append(name)
        return sorted(removed)

    def _own(self) -> dict[str, int]:
        """Name to inode of its folders that still exist."""
        now = _inodes().items()
        try:
            noted = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}  # Triton was never started
        if "own" in noted:
            return dict(now & noted["own"].items())
        return dict(now - noted["others"].items())

    def _write(self, noted: dict[str, dict[str, int]]) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(noted, sort_keys=True), encoding="utf-8")
        temporary.replace(self._file)


def _inodes() -> dict[str, int]:
    """Name to inode of this user's folders."""
    found = {}
    for path in FOLDER.glob(PATTERN):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if status.st_uid == os.getuid():
                found[path.name] = status.st_ino
    return found
