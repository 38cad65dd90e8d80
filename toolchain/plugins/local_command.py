"""command:local:Command: a command for each of create, update and delete."""

# ruff: noqa: ARG002 - the signatures are those of the interface

import contextlib
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import IO

from toolchain.plugins.resource import (
    Difference,
    Operation,
    ProviderError,
    Resource,
    Snapshot,
    unknown_outputs,
)
from toolchain.plugins.server import ProviderDefinition
from toolchain.plugins.wire import Properties

TOKEN = "command:local:Command"  # noqa: S105
DEFAULT_INTERPRETER = ("/bin/sh", "-c")
# `logging` names what is shown; leaving it out shows both.
SHOWN_STREAMS = {
    None: {"stdout", "stderr"},
    "stdoutAndStderr": {"stdout", "stderr"},
    "stdout": {"stdout"},
    "stderr": {"stderr"},
    "none": set(),
}
STOP_GRACE_S = 3.0


class LocalCommand(Resource):
    """Runs commands on this machine. What they print is shown and kept in the state.

    A command ends when it has exited and its outputs are closed: one that leaves a process behind
    must redirect that process's outputs.
    """

    def check(self, inputs: Properties) -> dict[str, str]:
        return {
            name: "the registry-only command plugin returns no files"
            for name in ("assetPaths", "archivePaths")
            if inputs.get(name)
        }

    def diff(
        self, resource_id: str, old_inputs: Properties, old: Properties, new: Properties
    ) -> Difference:
        changed = self.changed(old_inputs, new)
        return Difference(changed=changed, replaces=changed & {"triggers"})

    def planned(self, new: Properties, old: Properties | None) -> Properties:
        return {**new, **unknown_outputs("stdout", "stderr")}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        resource_id = operation.name + secrets.token_hex(4)
        return resource_id, {**new, **_run(new.get("create"), new, {}, operation)}

    def read(self, resource_id: str, inputs: Properties, outputs: Properties) -> Snapshot | None:
        if not outputs:
            raise ProviderError("a command cannot be imported")
        return Snapshot(inputs=inputs, outputs=outputs)

    def update(
        self, resource_id: str, old: Properties, new: Properties, operation: Operation
    ) -> Properties:
        command = new.get("update") or new.get("create")
        return {**new, **_run(command, new, old, operation)}

    def delete(self, resource_id: str, outputs: Properties, operation: Operation) -> None:
        _run(outputs.get("delete"), outputs, outputs, operation)


def _run(
    command: str | None, inputs: Properties, previous: Properties, operation: Operation
) -> Properties:
    """Run `command`; returns its stdout and stderr, or the previous ones where there is none.

    Raises:
        ProviderError: it did not exit with 0; the message holds what it printed.
    """
    if not command:
        return {name: previous.get(name, "") for name in ("stdout", "stderr")}
    process = _start(command, inputs, previous)
    shown = SHOWN_STREAMS[inputs.get("logging")]
    printed: list[str] = []  # both streams, as they came
    captured: dict[str, list[str]] = {"stdout": [], "stderr": []}

    def collector(name: str) -> Callable[[str], None]:
        def collect(line: str) -> None:
            captured[name].append(line)
            printed.append(line)
            if name in shown and line.strip():
                operation.log(line.rstrip("\n"))

        return collect

    ended = threading.Event()
    watcher = threading.Thread(target=_stop_when_cancelled, args=(process, operation, ended))
    watcher.start()
    try:
        _exchange(process, str(inputs.get("stdin") or ""), collector)
    finally:
        ended.set()
        watcher.join()
    if operation.cancelled.is_set():
        raise ProviderError(f"interrupted: running {command!r}:\n{''.join(printed)}")
    if process.returncode:
        status = f"exit status {process.returncode}"
        raise ProviderError(f"{status}: running {command!r}:\n{''.join(printed)}")
    return {name: "".join(lines).removesuffix("\n") for name, lines in captured.items()}


def _start(command: str, inputs: Properties, previous: Properties) -> subprocess.Popen[str]:
    environment = {**os.environ, **inputs.get("environment", {})}
    if inputs.get("addPreviousOutputInEnv", True):
        for name in ("stdout", "stderr"):
            if previous.get(name):
                environment[f"PULUMI_COMMAND_{name.upper()}"] = previous[name]
    arguments = [*(inputs.get("interpreter") or DEFAULT_INTERPRETER), command]
    try:
        return subprocess.Popen(
            arguments,
            cwd=inputs.get("dir"),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        raise ProviderError(f"cannot run {command!r}: {problem}") from problem


def _exchange(
    process: subprocess.Popen[str], stdin: str, collector: Callable[[str], Callable[[str], None]]
) -> None:
    """Feed `stdin` and hand over each line of both outputs until they close and it has exited."""
    streams = {"stdout": process.stdout, "stderr": process.stderr}
    threads = [threading.Thread(target=_write, args=(process.stdin, stdin))]
    for name, stream in streams.items():
        threads.append(threading.Thread(target=_read, args=(stream, collector(name))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.wait()


def _write(stream: IO[str], text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the command need not read its input
        stream.write(text)
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def _read(stream: IO[str], take: Callable[[str], None]) -> None:
    with stream:
        for line in stream:
            take(line)


def _stop_when_cancelled(
    process: subprocess.Popen[str], operation: Operation, ended: threading.Event
) -> None:
    """End the command's whole process group once the update is interrupted."""
    while not ended.wait(timeout=0.1):
        if operation.cancelled.is_set():
            _signal_group(process, signal.SIGTERM)
            ended.wait(timeout=STOP_GRACE_S)
            _signal_group(process, signal.SIGKILL)
            return


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def definition(version: str) -> ProviderDefinition:
    """The `command` provider."""
    return ProviderDefinition(
        name="command",
        version=version,
        config_keys=frozenset(),
        resources=lambda _: {TOKEN: LocalCommand()},
    )
