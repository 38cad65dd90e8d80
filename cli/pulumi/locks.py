"""One change of an environment at a time: our own lock, and stale locks of ended Pulumi runs."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from cli.console import say
from cli.environment import Environment
from cli.errors import CliError
from cli.pulumi.state import lock_files

OWNER_GRACE_S = 30.0  # an interrupted Pulumi without its `up` finishes its resources within this


@dataclass(frozen=True, slots=True, kw_only=True)
class PulumiLock:
    path: Path
    pid: int
    user: str
    host: str
    created: datetime

    @classmethod
    def read(cls, path: Path) -> PulumiLock:
        document = json.loads(path.read_text())
        return cls(
            path=path,
            pid=document["pid"],
            user=document["username"],
            host=document["hostname"],
            created=datetime.fromisoformat(document["timestamp"]),
        )

    def owner(self) -> psutil.Process | None:
        """The process that holds the lock; None if it has ended (its pid may be reused)."""
        try:
            process = psutil.Process(self.pid)
            started = process.create_time()
        except psutil.NoSuchProcess:
            return None
        # A second of slack, because the kernel's ticks and the lock's timestamps use different
        # clocks.
        return process if started <= self.created.timestamp() + 1 else None


@contextmanager
def exclusive(environment: Environment) -> Iterator[None]:
    """Locks the environment for one command. CliError if another one holds it."""
    environment.make_home()
    folder = environment.home / "locks"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / environment.name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = path.read_text() or "?"
            raise CliError(
                f'another slipway command (pid {holder}) is changing "{environment.name}"',
                fix=f"wait for it to end, or stop it: kill -INT {holder}",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)


def clear_stale_locks(environment: Environment, *, grace_s: float = OWNER_GRACE_S) -> None:
    """Removes and reports locks of ended processes on this host.

    A live owner gets `grace_s` to end. A lock that then remains, or one from another host, raises
    CliError with the command that clears it.
    """
    for path in lock_files(environment):
        try:
            lock = PulumiLock.read(path)
        except FileNotFoundError:
            continue  # its owner has just ended
        except (ValueError, KeyError):
            say(f"removing an unreadable Pulumi lock: {path}")
            path.unlink(missing_ok=True)
            continue
        _clear(environment, lock, grace_s)


def _clear(environment: Environment, lock: PulumiLock, grace_s: float) -> None:
    cancel = f'eval "$(slipway env -s {environment.name})" && pulumi cancel -s {environment.name}'
    if lock.host != socket.gethostname():
        raise CliError(
            f"the state is locked by {lock.user}@{lock.host} (pid {lock.pid}) since {lock.created}",
            fix=f"if nothing runs there any more: {cancel}",
        )
    owner = lock.owner()
    if owner is not None:
        say(f"waiting for an earlier pulumi (pid {lock.pid}) to end, up to {grace_s:.0f} s")
        _gone, alive = psutil.wait_procs([owner], timeout=grace_s)
        if alive:
            raise CliError(
                f"pulumi (pid {lock.pid}, user {lock.user}) has been changing this environment"
                f" since {lock.created}",
                fix=f"wait for it to end, or stop it: kill -INT {lock.pid}",
            )
    if lock.path.exists():
        say(f"clearing the lock of an ended pulumi (pid {lock.pid})")
        lock.path.unlink(missing_ok=True)
