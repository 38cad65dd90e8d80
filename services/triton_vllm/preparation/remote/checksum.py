"""What sources state of a file's content: SHA-256, Git's blob ID (the hub, of small files) or a CRC
(object stores)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["sha256", "git-blob", "crc32", "crc32c", "crc64nvme"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    kind: Kind
    value: str  # in hexadecimal digits

    def new(self, size_bytes: int) -> Any:
        """A hash whose hexdigest is to be `value`, of a file of this size."""
        if self.kind == "sha256":
            return hashlib.sha256()
        if self.kind == "git-blob":
            return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)
        return _Crc(_crc(self.kind), digits=len(self.value))


class _Crc:
    """A CRC with the methods of hashlib's."""

    def __init__(self, function: Callable[[bytes, int], int], *, digits: int) -> None:
        self._function, self._digits, self._value = function, digits, 0

    def update(self, data: bytes) -> None:
        self._value = self._function(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:0{self._digits}x}"


def _crc(kind: str) -> Callable[[bytes, int], int]:
    if kind == "crc32":
        return zlib.crc32
    from awscrt import checksums  # type: ignore[import-not-found]  # noqa: PLC0415

    function: Callable[[bytes, int], int] = getattr(checksums, kind)
    return function
