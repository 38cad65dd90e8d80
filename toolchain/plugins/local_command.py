"""command:local:Command: a command for each of create, update and delete."""

# ruff: noqa: ARG002 - the interface defines the signatures

import contextlib
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import IO

from toolchain.plugins.resource import Difference, Operation, ProviderError, Resource, State
from toolchain.plugins.wire import UNKNOWN, Properties

TOKEN = "command:local:Command"  # noqa: S105
STREAMS = ("stdout", "stderr")
DEFAULT_INTERPRETER = ("/bin/sh", "-c")
# `logging` selects the streams that are shown; by default both.
SHOWN_STREAMS = {
    None: {"stdout", "stderr"},
    "stdoutAndStderr": {"stdout", "stderr"},
    "stdout": {"stdout"},
    "stderr": {"stderr"},
    "none": set(),
}
STOP_GRACE_S = 3.0


class LocalCommand(Resource):
    """Runs commands on this machine. Their output is shown and kept in the state.

    A command ends when it has exited and its outputs are closed: one that leaves a process behind
    must redirect that process's outputs.
    """

    def check(self, inputs: Properties) -> dict[str, str]:
        return {
            name: "the registry-only command plugin cannot return files"
            for name in ("assetPaths", "archivePaths")
            if inputs.get(name)
        }

    def diff(self, old: State, new: Properties) -> Difference:
        changed = self.changed(old.inputs, new)
        return Difference(changed=changed, replaces=changed & {"triggers"})

    def planned(self, new: Properties, old: State | None) -> Properties:
        return {**new, **dict.fromkeys(STREAMS, UNKNOWN)}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        resource_id = operation.name + secrets.token_hex(4)
        return resource_id, {**new, **_run(new.get("create"), new, {}, operation)}

    def read(self, old: State) -> State:
        if old.outputs:
            return old
        raise ProviderError(
            "a command cannot be imported, because it is unknown whether it has run. Leave out "
            "`import_`: then its `create` runs, so it must be safe to run again"
        )

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        command = new.get("update") or new.get("create")
        return {**new, **_run(command, new, old.outputs, operation)}

    def delete(self, old: State, operation: Operation) -> None:
        _run(old.outputs.get("delete"), old.outputs, old.outputs, operation)


def _run(
    command: str | None, inputs: Properties, previous: Properties, operation: Operation
) -> Properties:
    """Run `command`; returns its stdout and stderr, or the previous ones if there is no command.

    Raises:
        ProviderError: it did not exit with 0; the message contains its output.
    """
    if not command:
        return {name: previous.get(name, "") for name in STREAMS}
    process = _start(command, inputs, previous)
    shown = SHOWN_STREAMS[inputs.get("logging")]
    printed: list[tuple[str, str]] = []  # (stream, line) of both, in order

    def read(name: str, stream: IO[str] | None) -> None:
        for line in stream or ():
            printed.append((name, line))
            if name in shown and line.strip():
                operation.log(line.rstrip("\n"))

    ended = threading.Event()
    with process, ThreadPoolExecutor(max_workers=4) as threads:
        threads.submit(_stop_when_cancelled, process, operation, ended)
        exchange = [
            threads.submit(_write, process.stdin, str(inputs.get("stdin") or "")),
            threads.submit(read, "stdout", process.stdout),
            threads.submit(read, "stderr", process.stderr),
        ]
        wait(exchange)
        process.wait()
        ended.set()
    for done in exchange:
        done.result()
    interrupted = operation.cancelled.is_set()
    if interrupted or process.returncode:
        reason = "interrupted" if interrupted else f"exit status {process.returncode}"
        text = "".join(line for _, line in printed)
        raise ProviderError(f"{reason}: running {command!r}:\n{text}")
    return {
        name: "".join(line for stream, line in printed if stream == name).removesuffix("\n")
        for name in STREAMS
    }


def _start(command: str, inputs: Properties, previous: Properties) -> subprocess.Popen[str]:
    environment = {**os.environ, **inputs.get("environment", {})}
    if inputs.get("addPreviousOutputInEnv", True):
        for name in STREAMS:
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


def _write(stream: IO[str] | None, text: str) -> None:
    assert stream is not None, "the standard input of a command is a pipe"  # noqa: S101
    with contextlib.suppress(BrokenPipeError):  # the command need not read its input
        stream.write(text)
    with contextlib.suppress(BrokenPipeError):
        stream.close()


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


CONFIG_KEYS = frozenset[str]()


def resources(_config: Properties) -> Mapping[str, Resource]:
    """The `command` provider."""
    return {TOKEN: LocalCommand()}
