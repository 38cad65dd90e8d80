"""What the fetch needs of a source that is reached over the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from preparation.remote.checksum import Checksum

CHUNK_BYTES = 1 << 16  # what a killed program loses of each file at most


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    name: str  # relative to the model's folder, with "/"
    size_bytes: int
    version: str  # changes with the content: an ETag, a blob ID
    checksum: Checksum | None = None  # that the source states of the whole file
    expected_sha256: str | None = None  # by the model file, or as fetched at first


class Remote(Protocol):
    key: str  # of the document: "source.s3"
    description: str  # "s3://models/qwen/"

    def listing(self) -> list[RemoteFile]:
        """Every file. Raises SourceError for what only the user can mend, UnavailableError for what
        may pass."""

    def stated(self, file: RemoteFile) -> Checksum | None:
        """The checksum of a file whose listing has none. Raises as `listing` does."""

    def read(self, file: RemoteFile, offset: int) -> AbstractContextManager[Iterator[bytes]]:
        """The file's content from `offset` on, which is below its size. Raises SourceError,
        UnavailableError or ChangedError, also while it is read."""


class UnavailableError(Exception):
    """The source does not answer, breaks off or asks to come back later."""

    def __init__(self, reason: str, *, retry_after_s: float = 0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class ChangedError(Exception):
    """The file is not the one that was listed."""
