"""OpenSSH's client, with the host's key pinned: no other host is taken for it."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from program.errors import HostError

CONNECT_TIMEOUT_S = 15
# The connection ends when the host has been silent for so long.
SILENCE_S, SILENCES = 5, 6
CLIENTS_OWN_FAILURE = 255  # ssh(1): any other code is the remote command's


class UnreachableError(HostError):
    """No command could be run on the host: exit 3. `said` is what OpenSSH's client says."""

    exit_code = 3

    def __init__(self, where: str, said: str, fix: str) -> None:
        super().__init__(f"{where} cannot be reached over SSH: {said}{fix}")
        self.said = said
        self.fix = fix.removeprefix("\nfix: ")


@dataclass(frozen=True)
class Place:
    """Where a host's SSH server listens, and the public key by which it is known."""

    address: str
    port: int
    user: str
    host_key: str


class Connection:
    """Runs commands on one host. Raises HostError that names the host and what to do."""

    def __init__(self, host: str, place: Place, options: list[str]) -> None:
        self.host = host
        self._place = place
        self._options = options

    def run(self, command: str) -> str:
        """A command's output."""
        done = subprocess.run(
            self._arguments(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self._must_succeed(done.returncode, done.stderr)
        return done.stdout

    def show(self, command: str) -> None:
        """A command whose output goes to this program's own, as it comes."""
        done = subprocess.run(
            self._arguments(command),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        self._must_succeed(done.returncode, done.stderr)

    @contextmanager
    def writing_to(self, command: str) -> Iterator[IO[bytes]]:
        """The standard input of a command; its failure is raised at the end of the block."""
        with subprocess.Popen(
            self._arguments(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None  # noqa: S101
            assert process.stderr is not None  # noqa: S101
            try:
                yield process.stdin
                process.stdin.close()
            except BrokenPipeError:  # the command has ended: its own error says why
                pass
            said = process.stderr.read().decode(errors="replace")
        self._must_succeed(process.returncode, said)

    def _arguments(self, command: str) -> list[str]:
        place = self._place
        target = ["-p", str(place.port), f"{place.user}@{place.address}"]
        return ["ssh", *self._options, *target, "--", command]

    def _must_succeed(self, code: int, said: str) -> None:
        if not code:
            return
        where = f"{self.host} ({self._place.address})"
        said = said.strip()
        if code != CLIENTS_OWN_FAILURE:
            raise HostError(f"{where}: {said or f'exit status {code}'}{_fix_of(said, self.host)}")
        raise UnreachableError(where, said, _fix_of(said, self.host))


@contextmanager
def connected(host: str, place: Place, jump: Place | None) -> Iterator[Connection]:
    """A connection to the host, through the jump host if there is one."""
    with tempfile.TemporaryDirectory(prefix="slipway-ssh-") as folder:
        known = Path(folder) / "known_hosts"
        known.write_text(
            "".join(f"{_name(each)} {each.host_key}\n" for each in (place, jump) if each)
        )
        common = _options(known)
        proxy = []
        if jump is not None:
            through = ["ssh", *common, "-p", str(jump.port), "-W", "[%h]:%p"]
            command = shlex.join([*through, f"{jump.user}@{jump.address}"])
            proxy = ["-o", f"ProxyCommand={command}"]
        yield Connection(host, place, [*common, *proxy])


def _options(known_hosts: Path) -> list[str]:
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT_TIMEOUT_S),
        "GlobalKnownHostsFile": "/dev/null",
        "LogLevel": "ERROR",
        "ServerAliveCountMax": str(SILENCES),
        "ServerAliveInterval": str(SILENCE_S),
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known_hosts),
    }
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def _name(place: Place) -> str:
    return place.address if place.port == 22 else f"[{place.address}]:{place.port}"


def _fix_of(said: str, host: str) -> str:
    fixes = {
        "Host key verification failed": "compare the key with the one on the host's console; if the"
        " host was reinstalled, replace its line in the file that slipway:ssh.known_hosts names",
        "Permission denied": "put the public key into the host's authorized_keys, or name its"
        " private key in slipway:ssh.key",
        "No space left on device": f"make room on {host}'s disk, then run it again",
        "Connection timed out": f"start {host}, or correct its address",
        "No route to host": f"start {host}, or correct its address",
        "Connection refused": f"start the SSH server on {host}, or correct slipway:ssh.port",
    }
    return next((f"\nfix: {fix}" for part, fix in fixes.items() if part in said), "")
