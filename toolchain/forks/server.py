"""The processes of one Pulumi run are forks of servers that have already imported their modules.

A run starts a dozen plugins, one after the other, and each would import gRPC and the protocol:
forks save the waiting and 12 % of a preview's processor time. So Pulumi starts small clients
(client.py), each of which asks the run's server for a fork.

`slipway up` and `preview` start the server before they plan, and own it: a fork of theirs, which
has half of the program's modules already and runs the program, too. A preview starts another one
for the policies, which have an interpreter of their own. Without such a command, Pulumi's first
client starts a server for plugins, and Pulumi owns it. A server ends with its last fork once its
owner has ended. Pulumi's also ends 2 s after its last fork, because its owner may be no Pulumi.
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
from typing import NoReturn, TextIO

from toolchain.forks.client import (
    ALL_STREAMS,
    END_SIGNALS,
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
    """Start a server that is owned by this process and has what it has imported; `modules` are
    imported in addition. No other thread may be running. Where no server can be started, clients
    do without."""
    owner = os.getpid()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None if it is closed
        stream.flush()  # or the server's forks would write it as well
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)  # the server must not handle one
    try:
        with contextlib.suppress(OSError):
            if not os.fork():
                _become_server(owner, modules)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


def _become_server(owner: int, modules: Sequence[str]) -> NoReturn:
    try:
        atexit._clear()  # they are the owner's
        _close_all_streams()
        # Not `closerange`: some builds of Python close each number up to the limit.
        for descriptor in {*map(int, os.listdir("/proc/self/fd"))} - {*range(NUMBER_OF_STREAMS)}:  # noqa: PTH208
            with contextlib.suppress(OSError):  # the listing's own is closed already
                os.close(descriptor)
        sys.stdout = _unbuffered(sys.stdout)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)
        main(owner, modules)
    finally:
        os._exit(0)


def _unbuffered(stream: TextIO | None) -> TextIO:
    """The stream as `python -u` opens it."""
    encoding, errors = (stream.encoding, stream.errors) if stream else (None, None)
    file = io.FileIO(1, "w", closefd=False)
    return io.TextIOWrapper(file, encoding=encoding, errors=errors, write_through=True)


def main(owner: int, modules: Sequence[str]) -> None:
    """Be the server of `owner`, a command, unless it has one with this interpreter."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
        descriptor = os.pidfd_open(owner)
        listener.bind(address_of(owner))
        serve(listener.detach(), descriptor, modules, linger_ms=None)


def serve(
    listener: int,
    owner: int,
    modules: Sequence[str] = PLUGIN_MODULES,
    *,
    linger_ms: int | None = LINGER_MS,
) -> None:
    """Serve clients in a session of its own until the end.

    Args:
        listener: the descriptor of a socket that is bound to the server's address.
        owner: a pidfd, which is readable once the owner has ended.
        modules: imported before the first fork, up to the first that cannot be imported: the fork
            that needs that one says why.
        linger_ms: for how long the server waits for a further client after its last fork; None
            until its owner has ended.
    """
    with contextlib.suppress(PermissionError):  # it leads one already
        os.setsid()  # signals to the owner's process group are not meant for the server
    os.chdir("/")
    _close_all_streams()
    taken = socket.socket(fileno=listener)
    taken.listen()  # in this process, because clients see the credentials of the one that listened
    gc.disable()  # nearly all that is imported stays
    with contextlib.suppress(Exception):
        for module in modules:
            importlib.import_module(module)
    gc.freeze()  # forks need not look at it, which would copy its pages
    gc.enable()
    _Server(taken, owner, linger_ms).serve()


def _close_all_streams() -> None:
    """Points them at /dev/null, so that no other file gets their numbers."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(NUMBER_OF_STREAMS):
        os.dup2(nothing, number)
    if nothing >= NUMBER_OF_STREAMS:
        os.close(nothing)


class _Server:
    """Forks itself for each client. Ends with the last fork once the owner has ended, or
    `linger_ms` after it; one that has had no fork yet waits for its owner."""

    def __init__(self, listener: socket.socket, owner: int, linger_ms: int | None) -> None:
        self._listener = listener
        self._owner = owner
        self._forks: dict[int, tuple[int, socket.socket]] = {}  # pid and client, by pidfd
        self._clients: dict[int, int] = {}  # pidfd, by the descriptor of a live client
        self._linger_after_fork_ms = linger_ms
        self._linger_ms: int | None = None
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
            self._linger_ms = self._linger_after_fork_ms
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
