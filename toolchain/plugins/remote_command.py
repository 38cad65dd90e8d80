"""command:remote:Command."""

import contextlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from toolchain.plugins.command import Command
from toolchain.plugins.resource import Operation, ProviderError
from toolchain.plugins.wire import Properties


class RemoteCommand(Command):
    """Runs commands on another host over SSH. The status -1 stands for a signal, or for a
    connection that broke."""

    kind = "command:remote:Command"
    failure = "Process exited with status"

    @contextlib.contextmanager
    def start(
        self, command: str, inputs: Properties, previous: dict[str, str], operation: Operation
    ) -> Iterator[Any]:
        from toolchain.plugins.ssh import connected

        with connected(inputs["connection"], operation) as client:
            channel = client.get_transport().open_session()
            for name, value in inputs.get("environment", {}).items():
                _set_variable(channel, name, value)
            for name, value in previous.items():
                channel.set_environment_variable(name, value)  # the host may ignore it
            channel.exec_command(command)
            yield SimpleNamespace(
                stdin=channel.makefile_stdin("w"),
                stdout=_lines(channel.makefile("rb")),
                stderr=_lines(channel.makefile_stderr("rb")),
                wait=channel.recv_exit_status,
                client=client,
            )

    def stop(self, process: Any, ended: threading.Event) -> None:
        """Nothing signals the remote program: only its connection ends."""
        process.client.close()


def _set_variable(channel: Any, name: str, value: str) -> None:
    """Like the channel's own method, but waits for the host's answer as its exec_command does."""
    from paramiko import Message, SSHException, common

    message = Message()
    message.add_byte(common.cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add("env", True, name, value)
    channel._event_pending()
    channel.transport._send_user_message(message)
    try:
        channel._wait_for_event()
    except SSHException as problem:
        raise ProviderError(
            f'could not set environment variable "{name}": ssh: setenv failed. The SSH server must '
            "accept it (AcceptEnv); or write the command as 'VAR=value command'"
        ) from problem


def _lines(stream: Any) -> Iterator[str]:
    return (line.decode(errors="replace") for line in stream)
