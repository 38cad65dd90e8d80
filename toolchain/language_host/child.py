"""Child processes of the language host: each in a group of its own, all ended together."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import IO


class Children:
    """The running children of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._stopped = False

    def start(
        self,
        command: list[str],
        cwd: str | Path,
        env: Mapping[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
        output: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `command`; both its outputs go to `output`, by default where this process's go."""
        with self._lock:
            if self._stopped:
                raise InterruptedError("the language host is ending")
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._running.add(process.pid)
        return process

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """The exit status of `process`."""
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process.pid)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End the whole group of `process` if it still runs, and reap it."""
        with self._lock:
            if process.pid not in self._running:
                return
            _kill_group(process.pid)
        self.wait(process)

    def stop(self) -> None:
        """End every child and start no more."""
        with self._lock:
            self._stopped = True
            for pid in self._running:
                _kill_group(pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def output_chunks(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, bytes]]:
    """("stdout" | "stderr", bytes) of a captured process as they come, until both are closed."""
    chunks: SimpleQueue[tuple[str, bytes]] = SimpleQueue()

    def read(name: str, stream: IO[bytes]) -> None:
        while data := os.read(stream.fileno(), 65536):
            chunks.put((name, data))
        chunks.put((name, b""))

    streams = {"stdout": process.stdout, "stderr": process.stderr}
    for name, stream in streams.items():
        assert stream is not None, "the outputs of the process are not pipes"  # noqa: S101
        threading.Thread(target=read, args=(name, stream), daemon=True).start()
    open_streams = len(streams)
    while open_streams:
        name, data = chunks.get()
        if data:
            yield name, data
        else:
            open_streams -= 1
