"""The plugins of one Pulumi run are forks of one process that has already imported their modules.

A run starts a dozen plugins, one after the other, and each would import gRPC and the protocol:
forks save the waiting and 12 % of a preview's processor time. So Pulumi starts a small client that
passes its arguments, folder, variables and outputs to the run's server, whose fork is the plugin. A
client that is asked to end passes that on and ends after its plugin; if it is killed, so is the
plugin. The first client of a run forks the server, which ends with its last plugin once Pulumi has
ended. If no server answers, the client becomes the plugin itself.

A client imports as little as possible, because each import is repeated a dozen times.
"""

import contextlib
import importlib
import os
import select
import signal
import socket
import stat
import struct
import sys
from types import FrameType

# Modules that a server imports before its first fork; the first makes the others cheap.
SHARED_MODULES = (
    "toolchain.protocol_alone",
    "toolchain.plugins.provider",
    "toolchain.language_host.main",
)
# Pulumi asks one language host for its version, and starts the one it uses after that has ended.
LINGER_MS = 2000
HAND_OVER_S = 10.0  # time for a server's imports
END_SIGNALS = (signal.SIGINT, signal.SIGTERM)

STANDARD_INPUT = 0

_SIZE_BYTES = 8
_STARTED = b"."


def run(module: str, arguments: list[str]) -> None:
    """Call `module`'s `main(arguments)`, which ends its process, in a fork of the server; exit with
    its status."""
    server = _server_of_this_run()
    if server is not None:
        signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)  # until signals can be passed on
        if _handed_over(server, module, arguments):
            sys.exit(_exit_status(server))
        server.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)
    importlib.import_module(module).main(arguments)


def _server_of_this_run() -> socket.socket | None:
    """A connection to the server, which is started if there is none; None if no server can be
    used."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(HAND_OVER_S)
    try:
        address = _address()
        try:
            connection.connect(address)
        except ConnectionRefusedError:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)  # fails if another client was faster
                listener.listen()
                connection.connect(address)  # waits there until the server takes it
                _start_server(listener, connection)
    except OSError:  # also if a sandbox or an old kernel lacks what a server needs
        return None
    return connection if _is_ours(connection) else None


def _address() -> str:
    """One address per Pulumi (the parent of its plugins) and checkout. It is abstract, because a
    path could be too long."""
    file = os.stat(__file__)  # noqa: PTH116
    return f"\0slipway-plugins-{_mounts_of('self')}-{os.getppid()}-{file.st_dev}-{file.st_ino}"


def _is_ours(connection: socket.socket) -> bool:
    """Whether the other end has the same user and sees the same files. Any user, and any container
    that shares the network, can use an abstract address."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _gid = struct.unpack("3i", credentials)
    with contextlib.suppress(OSError):  # it has ended
        return uid == os.geteuid() and _mounts_of(pid) == _mounts_of("self")
    return False


def _mounts_of(process: int | str) -> int:
    return os.stat(f"/proc/{process}/ns/mnt").st_ino  # noqa: PTH116


def _handed_over(server: socket.socket, module: str, arguments: list[str]) -> bool:
    """Whether the server has started a plugin, which has this process's outputs."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    try:
        fields = (module, os.getcwd(), str(len(arguments)), *arguments, *variables)  # noqa: PTH109
        request = os.fsencode("\0".join(fields))
        socket.send_fds(server, [len(request).to_bytes(_SIZE_BYTES)], [1, 2])
        server.sendall(request)
        return server.recv(len(_STARTED)) == _STARTED
    except OSError:  # the server has just ended, or took too long
        return False


def _exit_status(server: socket.socket) -> int:
    """Waits until the plugin ends, which it does soon after a signal or the end of standard
    input."""

    def end(_number: int = 0, _frame: FrameType | None = None) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            server.shutdown(socket.SHUT_WR)

    for number in END_SIGNALS:
        signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)
    server.settimeout(None)
    poll = select.poll()
    poll.register(server, select.POLLIN)
    if ends_with_its_peer(STANDARD_INPUT):
        poll.register(STANDARD_INPUT, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == server.fileno():
                return int.from_bytes(server.recv(1) or b"\1")
            if not os.read(STANDARD_INPUT, 4096):
                poll.unregister(STANDARD_INPUT)
                end()


def ends_with_its_peer(descriptor: int) -> bool:
    """Whether it is a pipe or a socket whose other end is held by Pulumi or a client."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _start_server(listener: socket.socket, connection: socket.socket) -> None:
    """Starts the server in its own process, with the client's `connection` closed; returns in the
    client."""
    pulumi = os.pidfd_open(os.getppid())
    if os.fork():
        os.close(pulumi)
        return
    try:
        connection.close()
        os.setsid()  # signals to the client's process group are not meant for the server
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.close(nothing)
        listener.listen()  # again: clients see the credentials of the process that listened
        for module in SHARED_MODULES:
            importlib.import_module(module)
        _Server(listener, pulumi).serve()
    finally:
        os._exit(0)


class _Server:
    """Forks a plugin for each client. Ends with the last plugin once Pulumi has ended, or when
    there has been no plugin for a moment.

    Args:
        pulumi: a descriptor (pidfd) that is readable once Pulumi has ended.
    """

    def __init__(self, listener: socket.socket, pulumi: int) -> None:
        self._listener = listener
        self._pulumi = pulumi
        self._plugins: dict[int, tuple[int, socket.socket]] = {}  # pid and client, by pidfd
        self._clients: dict[int, int] = {}  # pidfd, by the descriptor of a live client
        self._linger_ms = LINGER_MS
        self._poll = select.poll()
        for source in (listener, pulumi):
            self._poll.register(source, select.POLLIN)

    def serve(self) -> None:
        while events := self._poll.poll(None if self._plugins else self._linger_ms):
            for ready, _ in events:
                if ready == self._listener.fileno():
                    self._fork(self._listener.accept()[0])
                elif ready == self._pulumi:
                    self._poll.unregister(self._pulumi)
                    self._linger_ms = 0
                elif ready in self._plugins:
                    self._reap(ready)
                elif ready in self._clients:
                    self._kill_plugin_of(ready)

    def _fork(self, client: socket.socket) -> None:
        pid = os.fork()
        if not pid:
            self._close()
            _become_plugin(client)
        ended = os.pidfd_open(pid)
        self._plugins[ended] = pid, client
        self._poll.register(ended, select.POLLIN)
        self._clients[client.fileno()] = ended
        self._poll.register(client, 0)  # still reports that the other end is gone

    def _reap(self, ended: int) -> None:
        self._poll.unregister(ended)
        pid, client = self._plugins.pop(ended)
        if self._clients.pop(client.fileno(), None):
            self._poll.unregister(client)
        os.close(ended)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with client, contextlib.suppress(OSError):  # it was killed
            client.sendall((status & 0xFF).to_bytes())

    def _kill_plugin_of(self, client: int) -> None:
        """A client that is gone was killed, because it would have waited for its plugin."""
        self._poll.unregister(client)
        signal.pidfd_send_signal(self._clients.pop(client), signal.SIGKILL)

    def _close(self) -> None:
        """Closes the server's descriptors in a plugin."""
        self._listener.close()
        for descriptor in (self._pulumi, *self._plugins):
            os.close(descriptor)
        for _, client in self._plugins.values():
            client.close()


def _become_plugin(client: socket.socket) -> None:
    """Never returns."""
    try:
        if _is_ours(client):
            module, arguments = _take_over(client)
            importlib.import_module(module).main(arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _take_over(client: socket.socket) -> tuple[str, list[str]]:
    """Takes over the client's folder, outputs and variables; returns its module and arguments."""
    size, outputs, *_ = socket.recv_fds(client, _SIZE_BYTES, 2)
    request = client.recv(int.from_bytes(size), socket.MSG_WAITALL)
    module, folder, count, *rest = os.fsdecode(request).split("\0")
    os.chdir(folder)
    os.environ.clear()
    for variable in rest[int(count) :]:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    # A plugin ends at the end of its standard input, when the client says so or is gone.
    for number, descriptor in enumerate((client.fileno(), *outputs)):
        os.dup2(descriptor, number)
    for descriptor in outputs:
        os.close(descriptor)
    client.sendall(_STARTED)
    client.close()
    return module, rest[: int(count)]
