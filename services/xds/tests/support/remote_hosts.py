"""Hosts on this machine whose network can be lost: a network namespace, and a cable to it.

Packets to a host without network vanish: nobody answers, and no router says so. Needs root. All of
it is removed at the end, even if the test is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.waiting import eventually

_LOCK = Path("/run/lock/slipway-xds-hosts")  # names and addresses are the same in every run
_NETWORK = "10.79"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class RemoteHost:
    """`address` is reached from this machine, and nothing else is reached from the host."""

    def __init__(self, number: int, pid: int) -> None:
        self.address = f"{_NETWORK}.{number}.2"
        self.namespace = f"/proc/{pid}/ns/net"
        self._inside = ("nsenter", f"--net={self.namespace}")
        self._cable = f"sx-{number}"
        here = f"{_NETWORK}.{number}.1"
        card = "02:00:00:00:00:02"
        _run("ip", "link", "add", self._cable, "type", "veth", *_peer(card, pid))
        _run("ip", "address", "add", f"{here}/30", "dev", self._cable)
        _run("ip", "link", "set", self._cable, "up")
        # Otherwise this machine notices that nobody has the address any more, and says so.
        known = ("lladdr", card, "nud", "permanent", "dev", self._cable)
        _run("ip", "neighbour", "replace", self.address, *known)
        _run(*self._inside, "ip", "link", "set", "lo", "up")
        _run(*self._inside, "ip", "address", "add", f"{self.address}/30", "dev", "eth0")
        self.connect()

    def command(self, *command: str) -> tuple[str, ...]:
        """Runs a program on the host."""
        return (*self._inside, *command)

    def connect(self) -> None:
        _run(*self._inside, "ip", "link", "set", "eth0", "up")

    def disconnect(self) -> None:
        """From now on every packet is lost."""
        _run(*self._inside, "ip", "link", "set", "eth0", "down")

    @contextlib.asynccontextmanager
    async def forwards(self, port: int) -> AsyncIterator[None]:
        """What listens on this port of this machine's loopback listens on the host's, too."""
        ends: list[asyncio.StreamWriter] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection("127.0.0.1", port)
            ends.extend((writer, there[1]))
            await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))

        async with await asyncio.start_server(connected, sock=self._listen(port)):
            yield
            for end in ends:
                end.transport.abort()

    def _listen(self, port: int) -> socket.socket:
        with Path("/proc/thread-self/ns/net").open() as home, Path(self.namespace).open() as there:
            _enter(there.fileno())
            try:
                return socket.create_server(("127.0.0.1", port))
            finally:
                _enter(home.fileno())


@contextlib.asynccontextmanager
async def remote_hosts(count: int) -> AsyncIterator[list[RemoteHost]]:
    """Skips the test where there can be none."""
    if reason := _missing():
        pytest.skip(reason)
    async with contextlib.AsyncExitStack() as stack:
        lock = stack.enter_context(_LOCK.open("w"))
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        hosts = []
        for number in range(count):
            pid = await stack.enter_async_context(_namespace())
            hosts.append(RemoteHost(number, pid))
        yield hosts


@contextlib.asynccontextmanager
async def _namespace() -> AsyncIterator[int]:
    """The id of a process in a network namespace of its own.

    It waits for its input to end, which happens however this process ends, and removes the cable:
    the kernel would keep it for minutes, for connections that still wait for an answer.
    """
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--net", "sh", "-c", "cat; ip link delete eth0"),
        stdin=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        here = Path("/proc/self/ns/net").readlink()
        there = Path(f"/proc/{process.pid}/ns/net")
        await eventually(lambda: there.readlink() != here, "the namespace exists")
        yield process.pid
    finally:
        process.stdin.close()
        await process.wait()


def _missing() -> str:
    """Why there can be no hosts here; empty if there can."""
    if os.geteuid():
        return "hosts in network namespaces need root"
    for program in ("ip", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"hosts in network namespaces need the program {program}"
    probe = ["unshare", "--net", "ip", "link", "add", "sx-probe", "type", "veth"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"this machine allows no network namespaces: {done.stderr}" if done.returncode else ""


def _peer(card: str, pid: int) -> tuple[str, ...]:
    return ("peer", "name", "eth0", "address", card, "netns", str(pid))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
