"""What command:local:Command and command:remote:Command have in common."""

import json
import secrets
import threading
from abc import abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from typing import Any

from toolchain.plugins.resource import Difference, Operation, ProviderError, Resource, State
from toolchain.plugins.wire import Properties

STREAMS = ("stdout", "stderr")
# `logging` selects the streams that are shown; by default both.
SHOWN_STREAMS = {"stdoutAndStderr": STREAMS, "none": (), **{name: (name,) for name in STREAMS}}


class Command(Resource):
    """A command for each of create, update and delete. Their output is shown and kept in the state.

    A command ends when it has exited and its outputs are closed: one that leaves a process behind
    must redirect that process's outputs.
    """

    computed = STREAMS
    failure = "exit status"  # what precedes the status of a command that failed

    @abstractmethod
    def start(
        self, command: str, inputs: Properties, previous: dict[str, str], operation: Operation
    ) -> AbstractContextManager[Any]:
        """Start `command`; `previous` are variables with the outputs of the one before.

        The result has stdin, stdout, stderr and wait as those of subprocess.Popen.
        """

    @abstractmethod
    def stop(self, process: Any, ended: threading.Event) -> None:
        """End what `start` has returned; the event is set once it has ended."""

    def diff(self, old: State, new: Properties) -> Difference:
        changed = self.changed(old.inputs, new)
        return Difference(changed=changed, replaces=changed & {"triggers"})

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        resource_id = operation.name + secrets.token_hex(4)
        return resource_id, {**new, **self._run(new.get("create"), new, {}, operation)}

    def read(self, old: State) -> State:
        if old.outputs:
            return old
        raise ProviderError(
            "a command cannot be imported, because it is unknown whether it has run. Leave out "
            "`import_`: then its `create` runs, so it must be safe to run again"
        )

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        command = new.get("update") or new.get("create")
        return {**new, **self._run(command, new, old.outputs, operation)}

    def delete(self, old: State, operation: Operation) -> None:
        self._run(old.outputs.get("delete"), old.outputs, old.outputs, operation)

    def _run(
        self, command: str | None, inputs: Properties, previous: Properties, operation: Operation
    ) -> Properties:
        """Run `command`; returns its stdout and stderr, or the previous ones if there is no
        command.

        Raises:
            ProviderError: it did not exit with 0; the message contains its output.
        """
        before = {name: str(previous.get(name) or "") for name in STREAMS}
        if not command:
            return before
        known = {f"PULUMI_COMMAND_{name.upper()}": text for name, text in before.items() if text}
        passed = known if inputs.get("addPreviousOutputInEnv", True) else {}
        shown = SHOWN_STREAMS[inputs.get("logging") or "stdoutAndStderr"]
        printed: list[tuple[str, str]] = []  # (stream, line) of both, in order

        def write(stdin: Any) -> None:
            with suppress(OSError):  # the command need not read its input
                stdin.write(str(inputs.get("stdin") or ""))
            with suppress(OSError):
                stdin.close()

        def read(name: str, lines: Iterable[str]) -> None:
            for line in lines:
                printed.append((name, line))
                if name in shown and line.strip():
                    operation.log(line.rstrip("\n"))

        def stop_when_cancelled() -> None:
            while not ended.wait(timeout=0.1):
                if operation.cancelled.is_set():
                    self.stop(process, ended)
                    return

        ended = threading.Event()
        with (
            self.start(command, inputs, passed, operation) as process,
            ThreadPoolExecutor(max_workers=4) as threads,
        ):
            threads.submit(stop_when_cancelled)
            exchange = [
                threads.submit(write, process.stdin),
                threads.submit(read, "stdout", process.stdout),
                threads.submit(read, "stderr", process.stderr),
            ]
            wait(exchange)
            status = process.wait()
            ended.set()
        for done in exchange:
            done.result()
        if status or operation.cancelled.is_set():
            failed = "interrupted" if operation.cancelled.is_set() else f"{self.failure} {status}"
            quoted = json.dumps(command, ensure_ascii=False)
            text = "".join(line for _, line in printed)
            raise ProviderError(f"{failed}: running {quoted}:\n{text}")
        return {
            name: "".join(line for stream, line in printed if stream == name).removesuffix("\n")
            for name in STREAMS
        }
