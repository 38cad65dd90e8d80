"""What Pulumi starts for each plugin: a small client of the server whose fork is the plugin.

It passes its arguments, folder, variables and outputs to the server (server.py). A client that is
asked to end passes that on and ends after its plugin; if it is killed, so is the plugin. If no
server answers, the client becomes the plugin itself.

The clients of the program and of its policies (language_host/program.py and policies.py) do the
same. Their forks cannot be asked to end, so these clients end at a signal, and their forks are
killed.

It runs without `site` and imports as little as possible, because that is repeated a dozen times in
each preview: `_socket` and `_signal` are `socket` and `signal` without their enumerations.
"""

import _signal  # type: ignore[import-not-found]  # a part of CPython
import _socket
import os
import select
import stat
import sys

# The variable with the process that may have started servers for the Pulumi that it runs.
COMMAND = "SLIPWAY_COMMAND"
HAND_OVER_S = 10.0  # time for a server's imports
END_SIGNALS = (_signal.SIGINT, _signal.SIGTERM)
STANDARD_INPUT = 0
OUTPUTS = (1, 2)
ALL_STREAMS = (STANDARD_INPUT, *OUTPUTS)
SIZE_BYTES = 8
STATUS_BYTES = 2  # an exit status, or the number of a signal below zero
STARTED = b"."

_INT_BYTES = 4  # of a C int
_CREDENTIALS_BYTES = 3 * _INT_BYTES  # pid, uid, gid


def run(
    server: _socket.socket | None,
    module: str,
    arguments: list[str],
    *,
    streams: tuple[int, ...] = OUTPUTS,
) -> None:
    """Call `module`'s `main(arguments)` in a fork of the server and exit with its status; without a
    server, call it here.

    The fork has these `streams` of the client. If standard input is not one of them, that of the
    fork ends when the client's does, or when the client is asked to end.
    """
    if server is not None:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, END_SIGNALS)  # until signals can be passed on
        if _handed_over(server, module, arguments, streams):
            if STANDARD_INPUT not in streams:
                _pass_ends_on(server)
            _end_like_the_fork(server)
        server.close()
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, END_SIGNALS)
    find_packages()
    __import__(module)
    sys.modules[module].main(arguments)


def find_packages() -> None:
    """Does what `site` does at the start of an interpreter: the client is started without it."""
    import site

    if sys.flags.no_site:
        site.main()


def leave_checkout() -> None:
    """Removes this checkout from where modules are found: the client's script has put it first.

    It stays if PYTHONPATH names it, too, because `site` has removed the second of two entries.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if sys.flags.no_site and sys.path[0] not in [os.path.abspath(each) for each in named if each]:  # noqa: PTH100
        del sys.path[0]


def server_of_run() -> _socket.socket | None:
    """A connection to the server of the command that runs Pulumi, else to Pulumi's own, which is
    started if there is none; None if no server can be used."""
    try:
        pulumi = address_of(os.getppid())
        return server_of_command() or _connected(pulumi) or _started(os.getppid(), pulumi)
    except OSError:  # a sandbox or an old kernel lacks what a server needs
        return None


def server_of_command() -> _socket.socket | None:
    """A connection to the server with this interpreter of the command that runs Pulumi; None
    without one."""
    command = os.environ.get(COMMAND)
    try:
        return _connected(address_of(int(command))) if command else None
    except (OSError, ValueError):
        return None


def _connected(address: str) -> _socket.socket | None:
    """None if nobody listens there, or somebody else does."""
    connection = _socket.socket(_socket.AF_UNIX)
    connection.settimeout(HAND_OVER_S)
    try:
        connection.connect(address)
    except ConnectionRefusedError:
        return None
    return connection if is_ours(connection) else None


def _started(owner: int, address: str) -> _socket.socket | None:
    """Starts the plugins' server in its own process, with the client's connection closed; returns
    in the client."""
    listener = _socket.socket(_socket.AF_UNIX)
    listener.bind(address)  # fails if another client was faster
    listener.listen()
    connection = _connected(address)  # waits there until the server takes it
    descriptor = os.pidfd_open(owner)
    if not os.fork():
        try:
            if connection:
                connection.close()
            find_packages()
            from toolchain.forks.server import serve

            serve(listener.detach(), descriptor)
        finally:
            os._exit(0)
    os.close(descriptor)
    listener.close()
    return connection


def address_of(owner: int) -> str:
    """One address per owner (a process), checkout and interpreter. It is abstract, because a path
    could be too long."""
    # Not followed: the interpreter of a virtual environment is a link to one that others share.
    files = (os.stat(__file__), os.lstat(sys.executable))  # noqa: PTH116
    found = "-".join(f"{file.st_dev}-{file.st_ino}" for file in files)
    return f"\0slipway-forks-{mounts_of('self')}-{owner}-{found}"


def is_ours(connection: _socket.socket) -> bool:
    """Whether the other end has the same user and sees the same files. Any user, and any container
    that shares the network, can use an abstract address."""
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS_BYTES)
    pid, uid = (int.from_bytes(peer[at : at + _INT_BYTES], sys.byteorder) for at in (0, _INT_BYTES))
    try:
        return uid == os.geteuid() and mounts_of(pid) == mounts_of("self")
    except OSError:  # it has ended
        return False


def mounts_of(process: int | str) -> int:
    return os.stat(f"/proc/{process}/ns/mnt").st_ino  # noqa: PTH116


def _handed_over(
    server: _socket.socket, module: str, arguments: list[str], streams: tuple[int, ...]
) -> bool:
    """Whether the server has started a fork, which has these streams of this process."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    descriptors = b"".join(stream.to_bytes(_INT_BYTES, sys.byteorder) for stream in streams)
    try:
        fields = (module, os.getcwd(), str(len(arguments)), *arguments, *variables)  # noqa: PTH109
        request = os.fsencode("\0".join(fields))
        server.sendmsg(
            [len(request).to_bytes(SIZE_BYTES)],
            [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)],
        )
        server.sendall(request)
        return server.recv(len(STARTED)) == STARTED
    except OSError:  # the server has just ended, or took too long
        return False


def _pass_ends_on(server: _socket.socket) -> None:
    """Has the fork's standard input end at a signal and with this process's own."""

    def end(_number: int = 0, _frame: object = None) -> None:
        try:
            server.shutdown(_socket.SHUT_WR)
        except OSError:  # it has ended already
            return

    for number in END_SIGNALS:
        _signal.signal(number, end)
    if not ends_with_its_peer(STANDARD_INPUT):
        return
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, END_SIGNALS)
    poll = select.poll()
    for source in (server, STANDARD_INPUT):
        poll.register(source, select.POLLIN)
    while not any(ready == server.fileno() for ready, _ in poll.poll()):
        if not os.read(STANDARD_INPUT, 4096):
            end()
            return


def _end_like_the_fork(server: _socket.socket) -> None:
    """Waits until the fork has ended, and ends with its status or by its signal."""
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, END_SIGNALS)
    server.settimeout(None)
    answer = server.recv(STATUS_BYTES)
    if not answer:
        sys.exit("the process from which this one was forked has ended")
    status = int.from_bytes(answer, signed=True)
    if status < 0:
        if -status != _signal.SIGKILL:
            _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def ends_with_its_peer(descriptor: int) -> bool:
    """Whether it is a pipe or a socket whose other end is held by Pulumi or a client."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
