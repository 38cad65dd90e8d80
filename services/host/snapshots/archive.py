"""The files of snapshots in their folder: <system>-<time>.snap."""

from __future__ import annotations

import os
from pathlib import Path

from program.snapshots import PATHS, verify

PARTIAL = ".partial"


def snapshot_file(folder: Path, system: str, taken: str) -> Path:
    """`taken` is a time such as 20261125T103000Z, so that files sort by age."""
    return folder / f"{system}-{taken}.snap"


def of_system(folder: Path, system: str) -> list[Path]:
    """The snapshots of Consul or of Nomad, oldest first."""
    return sorted(folder.glob(f"{system}-*.snap"))


def complete(partial: Path) -> Path:
    """Give a snapshot its name, once it is verified and on the disk. Raises HostError if it is
    damaged."""
    verify(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    return partial.replace(partial.with_suffix(""))


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` snapshots of each system, and what a killed run has left."""
    for system in PATHS:
        for old in of_system(folder, system)[:-keep]:
            old.unlink()
    for partial in folder.glob(f"*{PARTIAL}"):
        partial.unlink()
