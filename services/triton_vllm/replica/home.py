"""The replica's folder under the scratch folder, and what dead launchers left in their own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from replica.errors import InputError, RunError
from replica.journal import Journal
from replica.processes import (
    end_marked_processes,
    end_processes_with,
    incarnation_of,
    launcher_lives,
    marked_processes,
)
from replica.settings import Settings
from replica.shared_memory import SharedMemoryLedger, remove_prefixed
from replica.triton_folders import TritonFolders

# A unix socket's path has 107 bytes; vLLM's are <folder>/<36 characters>.
MAX_TEMPORARY_PATH_BYTES = 107 - 37


@dataclass(frozen=True, slots=True)
class ReplicaHome:
    """`incarnation` is empty if its launcher died before writing it."""

    folder: Path
    incarnation: str

    @property
    def incarnation_file(self) -> Path:
        """Has the incarnation, and is locked while its launcher lives."""
        return self.folder / "incarnation"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def repository(self) -> Path:
        return self.folder / "models"

    @property
    def backends(self) -> Path:
        return self.folder / "backends"

    @property
    def shared_memory_prefix(self) -> str:
        """The prefix of Triton's regions: unique per incarnation, and short, as it must be."""
        return f"slipway-{hashlib.sha256(self.incarnation.encode()).hexdigest()[:12]}-"

    def ledger(self) -> SharedMemoryLedger:
        return SharedMemoryLedger(self.folder / "shared-memory.json", self.shared_memory_prefix)

    def triton_folders(self) -> TritonFolders:
        return TritonFolders(self.folder / "triton-folders.json")

    def launcher_lives(self) -> bool:
        """Also told by the lock: a launcher in another container has no process here."""
        return launcher_lives(self.incarnation) or _is_locked(self.incarnation_file)

    def processes(self) -> list[int]:
        return marked_processes(self.incarnation) if self.incarnation else []

    def end_triton(self) -> None:
        """Kills Triton and its stubs, not the engine, and removes their shared memory.

        Only their command lines contain its prefix.
        """
        end_processes_with(self.shared_memory_prefix, self.incarnation)
        remove_prefixed(self.shared_memory_prefix)

    def clear(self, spare: Iterable[int] = ()) -> dict[str, object]:
        """Ends the remaining processes, then removes shared memory and folders.

        Returns what was found; empty after an orderly end. Calling it twice is harmless.
        """
        found: dict[str, object] = {}
        if self.incarnation:
            ledger = self.ledger()
            # A failure to note shared memory must not keep the processes from being ended.
            try:
                ledger.observe(self.processes())
            except FileNotFoundError:
                pass  # another program has cleared the folder
            except OSError as error:
                found["shared_memory_not_noted"] = str(error)
            if ended := end_marked_processes(self.incarnation, spare):
                found["processes_ended"] = ended
            if removed := ledger.sweep():
                found["shared_memory_removed"] = removed
            self.triton_folders().sweep()
        shutil.rmtree(self.folder, ignore_errors=True)
        return found


def claim_home(settings: Settings, journal: Journal) -> ReplicaHome:
    """Clears every dead launcher's folder on this host, then creates this replica's.

    Raises RunError if this replica already runs.
    """
    folder = settings.scratch / f"r-{settings.replica_id}"
    _check_length(folder / "tmp")
    settings.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = _existing_home(folder)
    if own.incarnation and own.launcher_lives():
        raise RunError(f"this replica already runs: {own.incarnation}")
    clear_dead_homes(settings.scratch, journal)
    if not own.incarnation:
        own.clear()
    folder.mkdir(mode=0o700)
    home = ReplicaHome(folder, incarnation_of(settings.replica_id, os.getpid()))
    _write_locked(home.incarnation_file, home.incarnation)
    home.temporary.mkdir()
    return home


def clear_dead_homes(scratch: Path, journal: Journal) -> None:
    """Clears the folders of dead launchers, and what is noted in them."""
    for folder in scratch.glob("r-*"):
        home = _existing_home(folder)
        # Without an incarnation it is just being created, or its own replica clears it.
        if home.incarnation and not home.launcher_lives() and (found := home.clear()):
            journal.warning("leftovers of a dead launcher", folder=folder.name, **found)


def _existing_home(folder: Path) -> ReplicaHome:
    home = ReplicaHome(folder, "")
    try:
        return replace(home, incarnation=home.incarnation_file.read_text(encoding="utf-8"))
    except OSError:
        return home


def _write_locked(file: Path, text: str) -> None:
    """Writes a file and keeps it locked for as long as this process lives."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)  # not inherited by children
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, text.encode())


def _is_locked(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)  # excludes no other look
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _check_length(temporary: Path) -> None:
    if len(os.fsencode(temporary)) > MAX_TEMPORARY_PATH_BYTES:
        raise InputError(
            f"environment: SLIPWAY_SCRATCH is too long: {temporary} has more than "
            f"{MAX_TEMPORARY_PATH_BYTES} bytes, too many for the engine's sockets"
        )
