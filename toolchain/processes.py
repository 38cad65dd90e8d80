"""Long-running commands with a heartbeat and a log. Standard library only."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import disk_full, explained
from toolchain.progress import Step

_TICK_S = 0.5
_STOP_S = 10.0
_TAIL_BYTES = 4096
_TAIL_LINES = 12
_NO_SPACE = ("no space left on device", "os error 28", "disk quota exceeded", "file too large")


@dataclass
class CommandError(Exception):
    """A command ended with `code` other than 0; `tail` is the end of what it printed."""

    command: str
    code: int
    tail: str
    log: Path


def run(
    argv: Sequence[str | Path],
    *,
    step: Step,
    log: Path,
    lock: int,
    env: Mapping[str, str],
    cwd: Path,
) -> None:
    """Runs `argv` with its output in `log`; the last line is the detail of the heartbeat.

    The command inherits `lock`, see `locks.exclusive`. Raises CommandError, a ToolchainError when
    the disk is full, and CancelledError (after it has ended the command).
    """
    with explained(log.parent), log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            pass_fds=(lock,),
        )
    try:
        code = _wait(process, step, log)
    except BaseException:
        _stop(process)
        raise
    if code == 0:
        return
    tail = "\n".join(_tail(log)[-_TAIL_LINES:])
    if any(words in tail.lower() for words in _NO_SPACE):
        raise disk_full(log.parent)
    raise CommandError(command=str(argv[0]), code=code, tail=tail, log=log)


def _wait(process: subprocess.Popen[bytes], step: Step, log: Path) -> int:
    while True:
        try:
            return process.wait(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            step.tick("".join(_tail(log)[-1:]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> list[str]:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]
