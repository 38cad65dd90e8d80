"""The guard: waits for the end of its launcher, and clears what a killed launcher left.

It reads a pipe that only the launcher holds open. However the launcher dies, the kernel closes
the pipe; after an orderly end there is nothing left to do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from replica.home import ReplicaHome
from replica.journal import Journal
from replica.processes import MARKER
from replica.watch import ProcessWatch

ENTRYPOINT = Path(__file__).resolve().parent.parent / "guard.py"
RELEASE_TIMEOUT_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--incarnation", required=True)
    arguments = parser.parse_args()
    # Signals to the whole group are ignored: the launcher decides when to end.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    found = ReplicaHome(arguments.folder, arguments.incarnation).clear()
    if found:
        Journal().warning("the launcher died; its replica was cleared", **found)
    return 0


class Guard:
    """The launcher's side: one guard process, which is restarted if it dies."""

    def __init__(self, home: ReplicaHome, watch: ProcessWatch, journal: Journal) -> None:
        self._home = home
        self._watch = watch
        self._journal = journal
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def release(self) -> None:
        """Lets the guard end after an orderly end, when there is nothing left to clear."""
        self._watch.forget(self._process.pid)
        os.close(self._pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(RELEASE_TIMEOUT_S)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(ENTRYPOINT)]
        command += ["--folder", str(self._home.folder), "--incarnation", self._home.incarnation]
        # The write end is not inherited by any child: it closes when the launcher ends.
        read_end, self._pipe = os.pipe()
        process = subprocess.Popen(
            command,
            stdin=read_end,
            # If it still exists, the next launcher finds and ends it like everything else.
            env={"PATH": os.environ.get("PATH", ""), MARKER: self._home.incarnation},
            start_new_session=True,
        )
        os.close(read_end)
        self._watch.add(process.pid, "guard", self._restart)
        return process

    def _restart(self, _name: str) -> None:
        self._journal.warning("the guard died; starting another", exit_code=self._process.wait())
        os.close(self._pipe)
        self._process = self._start()
