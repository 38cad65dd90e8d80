"""A Docker daemon of a test's own: its programs are unpacked, nothing of it is installed.

    with docker_daemon(programs, folder) as daemon:
        daemon.client("ps")

`programs` is a folder with Debian's docker.io and what it needs. The runtime named `nvidia` is the
ordinary one. Whatever happens to the test, its containers and the daemon end with it: this file,
run as a program, starts the daemon, and ends everything at the end of its standard input.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hang import HANG_S

RUNTIME = "nvidia"
RESTART, KILL = "restart", "kill"
# The daemon's mounts end with it; it sees mounts made outside later.
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "slave")


class DockerDaemon:
    """The test's side."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        folder.mkdir()
        self.socket = folder / "docker.sock"
        self._process = subprocess.Popen(
            [*OWN_MOUNTS, sys.executable, __file__, str(programs), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # it must outlive the test to clean up after it
        )
        self._read("ready")

    def restart(self) -> None:
        """Ends the daemon in order, and starts it again; containers live on."""
        self._tell(RESTART)

    def kill(self) -> None:
        """As restart, but with SIGKILL."""
        self._tell(KILL)

    def client(self, *words: str) -> str:
        """What Docker's command line prints. Raises CalledProcessError."""
        return _client(self._programs, self.socket, *words)

    def start_client(self, *words: str, stdout: Any, stderr: Any) -> subprocess.Popen[bytes]:
        """Docker's command line as a process, in a session of its own: Ctrl-C is not for it."""
        return subprocess.Popen(
            _command(self._programs, self.socket, *words),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(HANG_S) == 0, (self._folder / "log").read_text()[-3000:]

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        self._read("ready")

    def _read(self, expected: str) -> None:
        assert self._process.stdout is not None
        word = self._process.stdout.readline().strip()
        assert word == expected, (self._folder / "log").read_text()[-3000:]


@contextmanager
def docker_daemon(programs: Path, folder: Path) -> Iterator[DockerDaemon]:
    daemon = DockerDaemon(programs, folder)
    try:
        yield daemon
    finally:
        daemon.end()


def _client(programs: Path, socket: Path, *words: str) -> str:
    command = _command(programs, socket, *words)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S)
    return done.stdout


def _command(programs: Path, socket: Path, *words: str) -> list[str]:
    return [str(programs / "usr/bin/docker"), f"--host=unix://{socket}", *words]


def _main(programs: Path, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the test, which ends this
    socket = folder / "docker.sock"
    containerd = _start_containerd(programs, folder)
    process = _start(programs, folder)
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            process.send_signal(signal.SIGKILL if line.strip() == KILL else signal.SIGTERM)
            process.wait()
            process = _start(programs, folder)
            print("ready", flush=True)
    finally:
        for container in _client(programs, socket, "ps", "--all", "--quiet").split():
            _client(programs, socket, "rm", "--force", container)
        for each in (process, containerd):
            each.terminate()
            each.wait()
        # A daemon that was restarted leaves its folder as a mount.
        subprocess.run(["umount", "--lazy", str(folder / "data")], capture_output=True, check=False)
        for name in ("data", "containerd"):
            shutil.rmtree(folder / name)
    os._exit(0)


def _start_containerd(programs: Path, folder: Path) -> subprocess.Popen[bytes]:
    """A process of its own, as on hosts: it outlives a daemon that is killed."""
    place = folder / "containerd"
    place.mkdir()
    settings = place / "config.toml"
    settings.write_text(
        f"""version = 2
root = "{place / "root"}"
state = "{place / "state"}"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{place / "sock"}"
"""
    )
    return _run(programs, folder, [str(programs / "usr/bin/containerd"), f"--config={settings}"])


def _start(programs: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Once it answers."""
    command = [
        str(programs / "usr/sbin/dockerd"),
        # Containers use the host's network.
        *("--bridge=none", "--iptables=false", "--ip6tables=false"),
        f"--data-root={folder / 'data'}",
        f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'pid'}",
        f"--containerd={folder / 'containerd/sock'}",
        f"--host=unix://{folder / 'docker.sock'}",
        f"--add-runtime={RUNTIME}={programs / 'usr/sbin/runc'}",
        "--live-restore",
    ]
    process = _run(programs, folder, command)
    deadline = time.monotonic() + HANG_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(subprocess.CalledProcessError):
            _client(programs, folder / "docker.sock", "version")
            return process
        time.sleep(0.05)  # no event tells
    raise SystemExit("the Docker daemon did not start")


def _run(programs: Path, folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    search = f"{programs / 'usr/sbin'}:{programs / 'usr/bin'}:{os.environ['PATH']}"
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": search}
        )


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
