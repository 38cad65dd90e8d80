"""The page's one port of this machine, under its addresses of both families."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

from cli.errors import WRONG_INPUT, CliError
from cli.ui.origins import ADDRESS

TRIES = 20
ADDRESS_6 = "::1"


def listen(port: int | None) -> list[socket.socket]:
    """Sockets of a port, or of a free one. Browsers may try both families for names below
    localhost, so that no other program must have the port in one of them. CliError if it cannot be
    had."""
    if port is not None:
        return _both(port)
    for _ in range(TRIES):
        with suppress(CliError):
            return _both(_free())
    raise CliError("no port of this machine is free", fix="end programs that listen on many ports")


def _free() -> int:
    with socket.create_server((ADDRESS, 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _both(port: int) -> list[socket.socket]:
    first = _listening(ADDRESS, port, socket.AF_INET)
    try:
        return [first, _listening(ADDRESS_6, port, socket.AF_INET6)]
    except OSError:  # this machine has no IPv6
        return [first]
    except CliError:
        first.close()
        raise


def _listening(address: str, port: int, family: socket.AddressFamily) -> socket.socket:
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _refused(port, "is in use") from None
        if error.errno == errno.EACCES:
            raise _refused(port, "is not for ordinary users") from None
        raise


def _refused(port: int, why: str) -> CliError:
    return CliError(
        f"--port: port {port} of this machine {why}",
        fix="choose another one, or leave --port out for a free one",
        exit_code=WRONG_INPUT,
    )
