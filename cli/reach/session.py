"""One OpenSSH client that forwards through one host, and the choice of that host."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.machine.children import ended_by
from cli.reach.document import Forwarding
from cli.reach.race import first
from cli.reach.ssh import PROHIBITED, forwarding, known_hosts, readable


class UnreachableError(Exception):
    """The host does not forward; says what OpenSSH says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`sockets` of this machine lead to the targets of forwarded addresses, by "address:port"."""

    host: str
    sockets: Mapping[str, Path]
    process: asyncio.subprocess.Process
    said: Path

    @property
    def forbids(self) -> str:
        """What OpenSSH says of a connection that the host's sshd forbids; "" if there is none."""
        lines = readable(self.said.read_text(errors="replace")).splitlines()
        return next((line for line in lines if PROHIBITED in line), "")

    async def ended(self) -> None:
        await self.process.wait()
        self._end_group()

    async def close(self) -> None:
        self._end_group()
        await self.process.wait()

    def _end_group(self) -> None:
        """With the client of the jump host, which waits long for a host that is dead."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)


async def first_session(
    wanted: Forwarding, names: Sequence[str], folder: Path, agent: Mapping[str, str]
) -> Session:
    """A session through the first of these hosts that answers. Raises AllFailedError, with an
    UnreachableError of each."""
    attempts = [functools.partial(_opened, wanted, name, folder, agent) for name in names]
    _, session = await first(attempts, Session.close, head_start_s=wanted.head_start_s)
    return session


async def _opened(wanted: Forwarding, name: str, parent: Path, agent: Mapping[str, str]) -> Session:
    host, folder = wanted.hosts[name], Path(tempfile.mkdtemp(dir=parent))
    known = folder / "known_hosts"
    known.write_text(known_hosts(host, wanted.jump))
    targets = dict.fromkeys(target for local in wanted.locals for target in local.targets)
    sockets = {target: folder / str(number) for number, target in enumerate(targets)}
    by_path = {path: target for target, path in sockets.items()}
    said = folder / "said"  # no pipe, which the client of the jump host would keep open
    with said.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *forwarding(host, wanted.jump, known, by_path),
            env=agent,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            preexec_fn=ended_by(signal.SIGTERM),
        )
    made = Session(host=name, sockets=sockets, process=process, said=said)
    assert process.stdout is not None  # noqa: S101
    try:
        if await process.stdout.readline():
            return made
        reason = readable(said.read_text(errors="replace"))
        if wanted.jump is not None and PROHIBITED in reason:
            reason += f"; {wanted.jump.address} needs AllowTcpForwarding yes in its sshd_config"
        raise UnreachableError(reason)
    except BaseException:
        await made.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
