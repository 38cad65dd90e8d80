"""A file that is being received. What is on the disk survives the process, and is continued."""

from __future__ import annotations

import hashlib
from pathlib import Path

from preparation.errors import MachineError
from preparation.folder import FileFacts, sync
from preparation.remote.source import RemoteFile

READ_BYTES = 1 << 20


class Part:
    """Appends to `path`, which one thread at a time may do."""

    def __init__(self, path: Path, file: RemoteFile) -> None:
        self.file = file
        self.received_bytes = 0
        self._path = path
        self._sha256 = hashlib.sha256()
        self._stated = None if file.checksum is None else file.checksum.new(file.size_bytes)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size <= file.size_bytes:
            self._read_again()
        else:
            path.write_bytes(b"")

    @property
    def complete(self) -> bool:
        return self.received_bytes == self.file.size_bytes

    @property
    def facts(self) -> FileFacts:
        return FileFacts(size_bytes=self.received_bytes, sha256=self._sha256.hexdigest())

    def append(self, chunk: bytes) -> None:
        with self._path.open("ab") as file:  # buffered: writes the whole chunk, or raises
            file.write(chunk)
        self._count(chunk)

    def discard(self) -> None:
        self._path.unlink()

    def corrupted(self) -> str | None:
        """Why a complete file is not what the source states."""
        checksum = self.file.checksum
        if checksum is None or self._stated.hexdigest() == checksum.value:
            return None
        return f"{self.file.name} does not match the checksum that its source states"

    def unexpected(self) -> bool:
        """Whether a complete file is not the one that the model file lists, or that was fetched at
        first."""
        return self.file.expected_sha256 not in (None, self.facts.sha256)

    def finish(self, target: Path) -> None:
        """Puts the complete file into its place, flushed. Raises MachineError if somebody else has
        written to it."""
        sync(self._path)
        size_bytes = self._path.stat().st_size
        if size_bytes != self.file.size_bytes:
            raise MachineError(
                f"{self._path} has {size_bytes} bytes, and not {self.file.size_bytes}",
                fix="look for what else writes there",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        self._path.rename(target)

    def _read_again(self) -> None:
        with self._path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                self._count(chunk)

    def _count(self, chunk: bytes) -> None:
        self.received_bytes += len(chunk)
        self._sha256.update(chunk)
        if self._stated is not None:
            self._stated.update(chunk)
