"""A real OpenSSH server for the contract tests: its Debian package, unpacked and not installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hosts.packages import archive_with
from tests.waiting import HANG_S, until
from tests.workers import WORKER

HOST_ADDRESS = f"127.91.{WORKER}.4"
JUMP_ADDRESS = f"127.91.{WORKER}.5"
PORT = 2222
NEEDED = re.compile(r"\./usr/(sbin/sshd$|lib/.*\.so)")
PACKAGES = ("openssh-server",)  # the same archive as for tests/hosts
# Started by root, sshd wants an unprivileged user and a folder, which only its own mounts have.
START = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
mount --bind "$1" /etc/passwd
shift
exec "$@"
"""


@dataclass(frozen=True, kw_only=True)
class SshServer:
    """A server that runs.

    Attributes:
        host_key: its public key, as `hostKey` takes it; other_host_key is one of another kind.
        private_key: a key that root may log in with.
        authorized: the file with the public keys of all that may log in.
    """

    address: str
    host_key: str
    other_host_key: str
    private_key: str
    authorized: Path
    log: Path

    def connection(self, **changes: Any) -> dict[str, Any]:
        """A `connection` to it, as the provider gets it."""
        return {
            "host": self.address,
            "port": PORT,
            "user": "root",
            "privateKey": self.private_key,
            "hostKey": self.host_key,
            "dialErrorLimit": 0,
            **changes,
        }


def missing_to_run() -> str:
    """Why there can be no server on this machine; empty if there can."""
    if os.geteuid():
        return "unpacking the package of OpenSSH's server needs root"
    for program in ("apt-get", "ssh-add", "ssh-agent", "ssh-keygen", "tar", "unshare"):
        if shutil.which(program) is None:
            return f"tests with OpenSSH's server need the program {program}"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "this machine allows no namespaces" if done.returncode else ""


def unpacked(cache: Path, folder: Path) -> Path:
    """A folder with the files of the package; raises CalledProcessError with apt's reason."""
    with tarfile.open(archive_with(PACKAGES, cache)) as archive:
        wanted = [member for member in archive if NEEDED.match(member.name)]
        archive.extractall(folder, wanted, filter="fully_trusted")
    return folder


@contextmanager
def ssh_server(files: Path, folder: Path, address: str, *settings: str) -> Iterator[SshServer]:
    """A server that root can log in to, with one key; ends with the block."""
    for name, kind in (("host", "ed25519"), ("other", "ecdsa"), ("user", "ed25519")):
        key = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(key, check=True, timeout=HANG_S)
    config = folder / "sshd_config"
    config.write_text(
        "\n".join(
            (
                f"ListenAddress {address}:{PORT}",
                f"HostKey {folder / 'host'}",
                f"HostKey {folder / 'other'}",
                f"AuthorizedKeysFile {folder / 'user.pub'}",
                "PidFile none",
                "PermitRootLogin prohibit-password",
                "StrictModes no",
                "MaxStartups 100",  # by default it drops some of 20 that come at once
                "PrintMotd no",
                *settings,
                "",
            )
        )
    )
    users = folder / "passwd"
    nobody = "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    users.write_text(Path("/etc/passwd").read_text() + nobody)
    command = ["unshare", "--mount", "sh", "-euc", START, "sh", str(users)]
    command += [str(files / "usr/sbin/sshd"), "-D", "-e", "-f", str(config)]
    libraries = [str(path) for path in (files / "usr/lib").glob("*-linux-gnu")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}
    log = folder / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, env=environment, stdout=written, stderr=written)
    try:
        until(lambda: process.poll() is not None or _answers(address), address, log=log)
        assert process.poll() is None, log.read_text()
        yield SshServer(
            address=address,
            host_key=(folder / "host.pub").read_text().strip(),
            other_host_key=(folder / "other.pub").read_text().strip(),
            private_key=(folder / "user").read_text(),
            authorized=folder / "user.pub",
            log=log,
        )
    finally:
        process.terminate()
        process.wait(timeout=HANG_S)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, PORT), timeout=HANG_S) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
