"""An Auto Scaling group as a file, which the bed plays: its template's version and the digest of
its user data, its instances, its instance refreshes. Standard library only."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NEW: dict[str, Any] = {"version": 0, "user_data": "", "instances": [], "refreshes": []}


def group_file(folder: Path, group: str) -> Path:
    return folder / f"group-{group}.json"


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else dict(NEW)
    return found


@contextmanager
def changing(file: Path) -> Iterator[dict[str, Any]]:
    """The group, written when the block ends; one process at a time."""
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        group = json.loads(json.dumps(read(file)))
        yield group
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(group))
        partial.replace(file)
