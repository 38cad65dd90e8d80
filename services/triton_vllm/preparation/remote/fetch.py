"""Fetches files of a source, several at a time, each going on where it broke off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from preparation.errors import MachineError
from preparation.folder import FileFacts
from preparation.remote.part import Part
from preparation.remote.retries import patiently, reachable
from preparation.remote.source import ChangedError, Remote, RemoteFile, UnavailableError
from preparation.remote.throttle import Throttle

TRIES_OF_A_FILE = 2  # that comes damaged

Received = Callable[[int], None]
"""Called with the number of bytes that have just come."""


@dataclass(kw_only=True)
class Fetch:
    """`folder`/files has what is complete and verified, `folder`/parts what is being received."""

    remote: Remote
    folder: Path
    at_once: int
    throttle: Throttle
    first_pause_s: float
    received: Received
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def files(self) -> Path:
        return self.folder / "files"

    def present_bytes(self, files: Iterable[RemoteFile]) -> int:
        """What earlier runs have received of the files."""
        places = (self.files, self.folder / "parts")
        found = (place / file.name for file in files for place in places)
        return sum(path.stat().st_size for path in found if path.is_file())

    def all(self, files: Iterable[RemoteFile]) -> dict[str, FileFacts]:
        """Fetches the files that are missing, the largest first. When one fails, threads that still
        wait for data are not joined; they end with the process."""
        ordered = sorted(files, key=lambda file: -file.size_bytes)
        pool = ThreadPoolExecutor(self.at_once, thread_name_prefix="fetch")
        futures = {file.name: pool.submit(self.one, file) for file in ordered}
        try:
            ended, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()  # raises what stopped the others
            return {name: future.result() for name, future in futures.items()}
        finally:
            self._stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def one(self, file: RemoteFile) -> FileFacts:
        """Raises SourceError, ChangedError, or MachineError if the source stays unreachable.

        Content that comes twice alike is what the source has, expected or not.
        """
        if file.checksum is None:
            with reachable(self.remote):
                stated = patiently(self.first_pause_s, self._stop.wait)(self.remote.stated, file)
            file = replace(file, checksum=stated)
        target, seen = self.files / file.name, set[FileFacts]()
        if target.is_file() and (kept := self._kept(target, file, seen)):
            return kept
        for _ in range(TRIES_OF_A_FILE):
            part = Part(self.folder / "parts" / file.name, file)
            self._receive(part)
            problem = part.corrupted()
            if problem is None and (not part.unexpected() or part.facts in seen):
                part.finish(target)
                return part.facts
            seen.add(part.facts)
            part.discard()
        raise MachineError(
            f"{problem or f'{file.name} comes differently'}, in {TRIES_OF_A_FILE} attempts",
            fix="find what corrupts it in transit: a proxy, a mirror, or this host's memory",
        )

    def _kept(self, target: Path, file: RemoteFile, seen: set[FileFacts]) -> FileFacts | None:
        """The facts of a file that an earlier run has completed, unless it was damaged since."""
        part = Part(target, file)
        if part.complete and part.corrupted() is None:
            if not part.unexpected():
                return part.facts
            seen.add(part.facts)
        part.discard()
        return None

    def _receive(self, part: Part) -> None:
        """Until the file is complete."""
        attempts = patiently(self.first_pause_s, self._stop.wait)
        with reachable(self.remote):
            while not part.complete:
                attempts.copy()(self._receive_some, part)

    def _receive_some(self, part: Part) -> None:
        """Raises UnavailableError only if nothing came: a source that sends something is asked
        again at once."""
        before = part.received_bytes
        try:
            with self.remote.read(part.file, before) as chunks:
                for chunk in chunks:
                    if self._stop.is_set():
                        raise UnavailableError("the program ends")
                    self._append(part, chunk)
        except UnavailableError:
            if part.received_bytes == before or self._stop.is_set():
                raise
            return
        if part.received_bytes == before:
            raise UnavailableError(f"{part.file.name} ended early")

    def _append(self, part: Part, chunk: bytes) -> None:
        part.append(chunk)
        self.received(len(chunk))
        self.throttle.wait_for(len(chunk))
        if part.received_bytes > part.file.size_bytes:
            raise ChangedError(f"{part.file.name} is longer than it was listed with")
