"""Connections over SSH: the `connection` of command:remote:Command.

Imported by the first connection, because paramiko takes long to import and a preview connects to
nothing.
"""

import base64
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from io import StringIO
from typing import Any

import tenacity
from paramiko import AutoAddPolicy, PKey, SSHClient, SSHException, UnknownKeyType, key_classes

from toolchain.plugins.resource import Operation, ProviderError
from toolchain.plugins.wire import Properties

FAILURES = (OSError, SSHException, EOFError)
# paramiko logs what it also raises; without a handler, Python would print it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@contextmanager
def connected(connection: Properties, operation: Operation) -> Iterator[SSHClient]:
    """A client of the host, perhaps by way of `connection`'s proxy.

    Raises:
        ProviderError: for what happens to the connection in the block as well.
    """
    ends, client = [("Dial", connection)], None
    if proxy := connection.get("proxy"):
        ends = [("Dial proxy", proxy), ("Dial from proxy", connection)]
    with ExitStack() as opened:
        try:
            for what, settings in ends:
                client = opened.enter_context(_dial(what, settings, client, operation))
            yield client
        except FAILURES as problem:
            raise ProviderError(f"ssh: {problem or type(problem).__name__}") from problem


def _dial(
    what: str, settings: Properties, hop: SSHClient | None, operation: Operation
) -> closing[SSHClient]:
    """A client that is logged in, by way of `hop`'s host if there is one. Retries what fails."""
    host, port = settings["host"], int(settings.get("port", 22))
    expected, private_key = _host_key(settings), _private_key(settings)

    def connect() -> Any:
        if hop is not None:
            return hop.get_transport().open_channel("direct-tcpip", (host, port), ("", 0))
        return socket.create_connection((host, port), settings.get("perDialTimeout", 15) or None)

    def dial() -> SSHClient:
        client = SSHClient()
        client.set_missing_host_key_policy(AutoAddPolicy)  # noqa: S507 - if no key is pinned
        if expected:
            name = host if port == 22 else f"[{host}]:{port}"
            client.get_host_keys().add(name, expected.get_name(), expected)
        user, password = settings.get("user", "root"), settings.get("password")
        with ExitStack() as if_refused:
            if_refused.callback(client.close)
            client.connect(
                host, port, user, password, private_key, look_for_keys=False, sock=connect()
            )
            if_refused.pop_all()
        return client

    limit, cancelled = int(settings.get("dialErrorLimit", 10)), operation.cancelled
    enough = tenacity.stop_never if limit < 0 else tenacity.stop_after_attempt(limit + 1)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(FAILURES),
        wait=tenacity.wait_exponential(multiplier=0.1, exp_base=1.5, max=5),
        stop=tenacity.stop_any(tenacity.stop_when_event_set(cancelled), enough),
        sleep=tenacity.sleep_using_event(cancelled),
        before_sleep=lambda state: operation.log(
            f"{what} {state.attempt_number}/{'inf' if limit < 0 else limit} failed: retrying"
        ),
    )
    try:
        return closing(retrying(dial))
    except tenacity.RetryError as failed:
        last = failed.last_attempt
        why = f"after {last.attempt_number - 1} failed attempts: {last.exception()}"
        raise ProviderError(f"{what} {host}:{port}: {why}") from last.exception()


def _host_key(settings: Properties) -> PKey | None:
    if not settings.get("hostKey"):
        return None
    try:
        name, encoded, *_ = settings["hostKey"].split()
        return PKey.from_type_string(name, base64.b64decode(encoded))
    except (ValueError, SSHException, UnknownKeyType) as problem:
        raise ProviderError(f"failed to parse host key: {problem}") from problem


def _private_key(settings: Properties) -> PKey | None:
    if settings.get("agentSocketPath"):
        raise ProviderError("the registry-only plugin finds an SSH agent by SSH_AUTH_SOCK only")
    if not settings.get("privateKey"):
        return None
    for kind in key_classes:
        with suppress(SSHException, ValueError):  # it is of another kind
            text = StringIO(settings["privateKey"])
            return kind.from_private_key(text, settings.get("privateKeyPassword"))
    raise ProviderError("failed to parse private key: wrong password, or not OpenSSH's format")
