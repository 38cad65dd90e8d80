"""command:local:Command."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

from toolchain.plugins.command import Command
from toolchain.plugins.resource import Operation, ProviderError
from toolchain.plugins.wire import Properties

DEFAULT_INTERPRETER = ("/bin/sh", "-c")
STOP_GRACE_S = 3.0


class LocalCommand(Command):
    """Runs commands on this machine. An interrupt ends a command's whole process group."""

    kind = "command:local:Command"
    unsupported = ("archivePaths", "assetPaths")

    @contextlib.contextmanager
    def start(
        self, command: str, inputs: Properties, previous: dict[str, str], operation: Operation
    ) -> Iterator[subprocess.Popen[str]]:
        environment = {**os.environ, **inputs.get("environment", {}), **previous}
        arguments = [*(inputs.get("interpreter") or DEFAULT_INTERPRETER), command]
        try:
            process = subprocess.Popen(
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
        with process:
            yield process

    def stop(self, process: subprocess.Popen[str], ended: threading.Event) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            ended.wait(timeout=STOP_GRACE_S)
