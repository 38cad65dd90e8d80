"""The process that keeps an environment's forwards open while a command needs them.

    python -m cli.reach.keeper DOOR DESCRIPTOR OPERATOR

Its standard input is the document of what to forward (document.py); DESCRIPTOR is a connected
socket, the first command's. Others connect to the socket DOOR. It ends with the last of them.
OPERATOR is the folder of the operator's certificate, once there is one.

The addresses stay open while no host can be reached: whoever connects meanwhile waits until one
can, or until none of them could.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cli.reach.document import (
    CLOSED,
    FORBIDDEN,
    JOINED,
    OPEN,
    REFUSED,
    SHARED,
    Forwarding,
    Local,
    from_json,
    line,
)
from cli.reach.leaders import must_know_leader, operators_context
from cli.reach.race import AllFailedError, first
from cli.reach.relay import CHUNK, Streams, answering, carry, greeted
from cli.reach.session import Session, first_session
from cli.reach.tunnels import Tunnels

AGENT = "SSH_AUTH_SOCK"
RETRY_S = 1.0
ENDING_S = 0.5
LOOK_S = 2.0
TLS_HANDSHAKE = b"\x16"  # the first byte that a client says
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LEADER_HEAD_START_S = 0.5  # of a server before the next one is asked for a leader, too


class Keeper:
    def __init__(self, wanted: Forwarding, folder: Path, operator: Path) -> None:
        self._wanted = wanted
        self._folder = folder
        self._operator = operator
        self._leases: dict[asyncio.StreamWriter, Mapping[str, Any]] = {}
        self._session: Session | None = None
        self._settled = asyncio.Event()  # a session is open, or no host could be reached
        self._state: dict[str, Any] = {}
        self._over = asyncio.Event()
        self._answered: dict[Local, int] = {}  # the target that answered last
        self._looked_s = dict.fromkeys(wanted.locals, -LOOK_S)  # for a leader
        self._looking = {local: asyncio.Lock() for local in wanted.locals}
        self._tunnels = Tunnels(wanted.tunnels, self._variables) if wanted.tunnels else None

    async def run(self, command: socket.socket, door: Path) -> None:
        """Returns when no command is left."""
        first_streams = await asyncio.open_unix_connection(sock=command)
        listeners = await self._listen(first_streams[1])
        if listeners is None:
            return
        server = await asyncio.start_unix_server(self._lease, door)
        own = door.stat().st_ino
        background = [
            asyncio.create_task(self._lease(*first_streams)),
            asyncio.create_task(self._keep()),
        ]
        await self._over.wait()
        for listener in listeners:
            listener.close()
        server.close()
        if door.stat().st_ino == own:  # not that of a keeper that has begun since
            door.unlink()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _listen(self, first: asyncio.StreamWriter) -> list[asyncio.Server] | None:
        """None if an address is taken; the command is told which."""
        listeners: list[asyncio.Server] = []
        for host, port, serve in self._doors():
            try:
                listeners.append(await asyncio.start_server(serve, host, port))
            except OSError as error:
                first.write(_taken(self._wanted.environment, f"{host}:{port}", error))
                await first.drain()
                return None
        return listeners

    def _doors(self) -> Iterator[tuple[str, int, Serve]]:
        """Where it listens, and what it does with connections."""
        for local in self._wanted.locals:
            yield local.host, local.port, functools.partial(self._serve, local)
        if tunnels := self._wanted.tunnels:
            for address in tunnels.hosts:
                yield address, tunnels.port, functools.partial(self._tunnel, address)

    async def _tunnel(
        self, local: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert self._tunnels is not None  # noqa: S101
        await self._tunnels.serve(local, (reader, writer))
        writer.close()

    async def _lease(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One command, from its hello to its end."""
        try:
            hello = json.loads(await reader.readline() or "{}")
            if hello.get("digest") != self._wanted.digest:
                writer.write(_other(self._wanted.environment))
                return
            if self._over.is_set():  # it ends; the command starts another
                writer.close()
                return
            self._leases[writer] = hello
            writer.write(line(state=JOINED, pid=os.getpid()))
            if self._settled.is_set():
                writer.write(line(**self._state))
            await reader.read()
        except OSError:
            pass  # it was killed
        finally:
            self._leases.pop(writer, None)
            if self._session is not None and (reason := self._session.forbids):
                writer.write(line(state=FORBIDDEN, host=self._session.host, reason=reason))
            if not self._leases:
                self._over.set()
            else:
                writer.write(line(state=SHARED))
                writer.close()

    async def _keep(self) -> None:
        """Keeps a session open: through another host when one is lost."""
        names = list(self._wanted.hosts)
        while True:
            try:
                self._session = await first_session(
                    self._wanted, names, self._folder, self._variables()
                )
            except AllFailedError as error:
                found = zip(names, map(str, error.errors), strict=True)
                said = {name: self._with_tunnel(name, reason) for name, reason in found}
                self._settle(state=CLOSED, reasons=said)
                await asyncio.sleep(RETRY_S)
                continue
            host = self._session.host
            self._settle(state=OPEN, host=host)
            await self._session.ended()
            self._session = None
            self._settled.clear()
            at = names.index(host) + 1
            names = [*names[at:], *names[:at]]

    def _with_tunnel(self, host: str, reason: str) -> str:
        """OpenSSH knows nothing of a tunnel: it says that the connection was closed."""
        said = self._tunnels.said if self._tunnels else {}
        return said.get(self._wanted.hosts[host].address, reason)

    def _settle(self, **state: Any) -> None:
        self._state = state
        self._settled.set()
        for lease in self._leases:
            lease.write(line(**state))

    def _variables(self) -> dict[str, str]:
        """With the ssh-agent of the command that came last: its agent lives longest."""
        agents = [hello["agent"] for hello in self._leases.values() if hello.get("agent")]
        return {**os.environ, **({AGENT: agents[-1]} if agents else {})}

    async def _serve(
        self, local: Local, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        near = (reader, writer)
        with suppress(OSError):  # one of the two sides is gone
            if len(local.targets) == 1:
                await self._to_the_only_one(local, near)
            elif said := await reader.read(CHUNK):
                await self._to_one_that_answers(local, near, said)
        writer.close()

    async def _to_the_only_one(self, local: Local, near: Streams) -> None:
        await self._settled.wait()
        if self._session is not None:
            socket = self._session.sockets[local.targets[0]]
            await carry(near, await asyncio.open_unix_connection(socket))

    async def _to_one_that_answers(self, local: Local, near: Streams, said: bytes) -> None:
        may_be_repeated = local.led or said.startswith(TLS_HANDSHAKE)
        ask = answering if may_be_repeated else greeted
        while True:
            await self._settled.wait()
            session = self._session
            if session is None:
                return
            if local.led:
                await self._look_for_a_leader(local, session)
            order = self._order(local)
            sockets = [session.sockets[local.targets[number]] for number in order]
            try:
                number, answer, far = await ask(said, sockets, self._wanted.head_start_s)
            except AllFailedError:
                if await _ends(session):  # another host may take over
                    continue
                return
            self._answered[local] = order[number]
            near[1].write(answer)
            await carry(near, far)
            return

    def _order(self, local: Local) -> list[int]:
        """The targets in the order of trying: first the one that answered last."""
        last = self._answered.get(local, 0)
        return [*range(last, len(local.targets)), *range(last)]

    async def _look_for_a_leader(self, local: Local, session: Session) -> None:
        """Puts a server that knows a leader first, if there is one: a new server answers before it
        has joined, but with errors only."""
        async with self._looking[local]:
            context = operators_context(self._operator)
            if context is None or time.monotonic() - self._looked_s[local] < LOOK_S:
                return
            order = self._order(local)
            sockets = [session.sockets[local.targets[number]] for number in order]
            attempts = [
                functools.partial(must_know_leader, socket, context, local.server_name)
                for socket in sockets
            ]
            with suppress(AllFailedError):
                number, _ = await first(attempts, _nothing, head_start_s=LEADER_HEAD_START_S)
                self._answered[local] = order[number]
            self._looked_s[local] = time.monotonic()


async def _nothing(_: None) -> None:
    pass


async def _ends(session: Session) -> bool:
    """Whether the session is about to end, which its connections notice first."""
    try:
        await asyncio.wait_for(session.ended(), ENDING_S)
    except TimeoutError:
        return False
    await asyncio.sleep(0)  # the keeper has noticed, too
    return True


def _taken(environment: str, place: str, error: OSError) -> bytes:
    host = place.rpartition(":")[0]
    return line(
        state=REFUSED,
        pid=os.getpid(),
        message=f'"{environment}" is reached at {place} of this machine, which cannot be used:'
        f" {os.strerror(error.errno or errno.EADDRINUSE)}",
        fix=f"end what listens there (ss -ltnp 'src {host}' shows it), such as another"
        " checkout's command for an environment of this name; or set slipway:ssh.local_address to"
        " another address of 127.0.0.0/8",
    )


def _other(environment: str) -> bytes:
    return line(
        state=REFUSED,
        pid=0,
        message=f'another command keeps the forwards of "{environment}" open, with other hosts or'
        " addresses than the files have now",
        fix=f"end it (slipway reach -s {environment}, or an older command), then run this one"
        " again",
    )


def main() -> None:
    door, descriptor, operator = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    wanted = from_json(sys.stdin.read())

    async def keep(folder: Path) -> None:
        await Keeper(wanted, folder, operator).run(socket.socket(fileno=descriptor), door)

    with tempfile.TemporaryDirectory(prefix="reach-", dir=door.parent) as folder:
        asyncio.run(keep(Path(folder)))


if __name__ == "__main__":
    main()
