"""The processes of one Pulumi run are forks of servers that have already imported their modules.

A run starts a dozen plugins, one after the other, and each would import gRPC and the protocol:
forks save the waiting and 12 % of a preview's processor time. So Pulumi starts small clients
(client.py), each of which asks the run's server for a fork.

`slipway up` and `preview` start the server while they plan, and own it: a fork of theirs, which has
most of the program's modules already and runs the program, too. A preview starts another one for
the policies, which have an interpreter of their own. Without such a command, Pulumi's first client
starts a server for plugins, and Pulumi owns it. A server ends with its last fork once its owner has
ended, or 2 s after its last fork: a later Pulumi of the same owner has a server of its own.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import TextIO

from toolchain.forks.client import (
    ALL_STREAMS,
    SIZE_BYTES,
    STANDARD_INPUT,
    STARTED,
    STATUS_BYTES,
    address_of,
    is_ours,
)

# What a server imports for plugins; the first makes the others cheap where there is no SDK.
PLUGIN_MODULES = (
    "toolchain.protocol_alone",
    "toolchain.plugins.provider",
    "toolchain.language_host.main",
)
# Pulumi asks one language host for its version, and starts the one it uses after that has ended.
LINGER_MS = 2000
NUMBER_OF_STREAMS = 3  # standard input, output and error
PR_SET_PDEATHSIG = 1  # of prctl(2)


def fork_into_server(*modules: str) -> None:
    """Start a server that owns what this process has imported, and is owned by it; `modules` are
    imported in addition. No other thread may be running."""
    owner = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # or the server's forks would write it as well
    if os.fork():
        return
    try:
        atexit._clear()  # they are this process's, not its forks'
        os.closerange(NUMBER_OF_STREAMS, os.sysconf("SC_OPEN_MAX"))
        sys.stdout = _unbuffered(sys.stdout)
        main(owner, modules)
    finally:
        os._exit(0)


def _unbuffered(stream: TextIO) -> TextIO:
    """The stream as `python -u` opens it."""
    file = io.FileIO(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        file, encoding=stream.encoding, errors=stream.errors, write_through=True
    )


def main(owner: int, modules: Sequence[str]) -> None:
    """Be the server of `owner`, a process, unless it has one with this interpreter."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
        descriptor = os.pidfd_open(owner)
        listener.bind(address_of(owner))
        serve(listener.detach(), descriptor, modules)


def serve(listener: int, owner: int, modules: Sequence[str] = PLUGIN_MODULES) -> None:
    """Serve clients in a session of its own until the end.

    Args:
        listener: the descriptor of a socket that is bound to the server's address.
        owner: a pidfd, which is readable once the owner has ended.
        modules: imported before the first fork. One that cannot be imported fails again in the fork
            that needs it, which says why.
    """
    with contextlib.suppress(PermissionError):  # it leads one already
        os.setsid()  # signals to the owner's process group are not meant for the server
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(NUMBER_OF_STREAMS):
        os.dup2(nothing, number)
    os.close(nothing)
    taken = socket.socket(fileno=listener)
    taken.listen()  # in this process, because clients see the credentials of the one that listened
    gc.disable()  # nearly all that is imported stays
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.freeze()
    gc.enable()
    _Server(taken, owner).serve()


class _Server:
    """Forks itself for each client. Ends with the last fork once the owner has ended, or LINGER_MS
    after it; one that has had no fork yet waits for its owner."""

    def __init__(self, listener: socket.socket, owner: int) -> None:
        self._listener = listener
        self._owner = owner
        self._forks: dict[int, tuple[int, socket.socket]] = {}  # pid and client, by pidfd
        self._clients: dict[int, int] = {}  # pidfd, by the descriptor of a live client
        self._linger_ms: int | None = None  # a command may plan for long before it runs Pulumi
        self._poll = select.poll()
        for source in (listener, owner):
            self._poll.register(source, select.POLLIN)

    def serve(self) -> None:
        while events := self._poll.poll(None if self._forks else self._linger_ms):
            for ready, _ in events:
                if ready == self._listener.fileno():
                    self._fork(self._listener.accept()[0])
                elif ready == self._owner:
                    self._poll.unregister(self._owner)
                    self._linger_ms = 0
                elif ready in self._forks:
                    self._reap(ready)
                elif ready in self._clients:
                    self._kill_fork_of(ready)

    def _fork(self, client: socket.socket) -> None:
        pid = os.fork()
        if not pid:
            self._close()
            _become_fork(client)
        if self._linger_ms is None:
            self._linger_ms = LINGER_MS
        ended = os.pidfd_open(pid)
        self._forks[ended] = pid, client
        self._poll.register(ended, select.POLLIN)
        self._clients[client.fileno()] = ended
        self._poll.register(client, 0)  # still reports that the other end is gone

    def _reap(self, ended: int) -> None:
        self._poll.unregister(ended)
        pid, client = self._forks.pop(ended)
        if self._clients.pop(client.fileno(), None):
            self._poll.unregister(client)
        os.close(ended)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with client, contextlib.suppress(OSError):  # it was killed
            client.sendall(status.to_bytes(STATUS_BYTES, signed=True))

    def _kill_fork_of(self, client: int) -> None:
        """A client that is gone was killed, because it would have waited for its fork."""
        self._poll.unregister(client)
        signal.pidfd_send_signal(self._clients.pop(client), signal.SIGKILL)

    def _close(self) -> None:
        """Closes the server's descriptors in a fork."""
        self._listener.close()
        for descriptor in (self._owner, *self._forks):
            os.close(descriptor)
        for _, client in self._forks.values():
            client.close()


def _become_fork(client: socket.socket) -> None:
    """Never returns."""
    status = 1
    try:
        _end_with_the_server()
        if is_ours(client):
            module, arguments = _take_over(client)
            importlib.import_module(module).main(arguments)
            status = 0
    except SystemExit as end:
        status = _exit_status(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _finalize()
        os._exit(status)


def _end_with_the_server() -> None:
    """Nobody else would kill the fork when its client is gone."""
    server = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _finalize() -> None:
    """What an interpreter does at its end; multiprocessing's forks do the same."""
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]  # waits for other threads
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # nobody reads it any more
            stream.flush()


def _exit_status(end: SystemExit) -> int:
    """The status that the interpreter would exit with; shows a message as it would."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


def _take_over(client: socket.socket) -> tuple[str, list[str]]:
    """Takes over the client's folder, streams and variables; returns its module and arguments."""
    size, streams, *_ = socket.recv_fds(client, SIZE_BYTES, len(ALL_STREAMS))
    request = client.recv(int.from_bytes(size), socket.MSG_WAITALL)
    module, folder, count, *rest = os.fsdecode(request).split("\0")
    os.chdir(folder)
    os.environ.clear()
    for variable in rest[int(count) :]:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    if len(streams) < len(ALL_STREAMS):
        # A plugin ends at the end of its standard input, when the client says so or is gone.
        os.dup2(client.fileno(), STANDARD_INPUT)
    for number, descriptor in zip(ALL_STREAMS[-len(streams) :], streams, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    try:
        client.sendall(STARTED)
    except OSError:  # it has not waited, and does the work itself
        os._exit(1)
    client.close()
    return module, rest[: int(count)]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
