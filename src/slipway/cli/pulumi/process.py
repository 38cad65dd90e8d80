"""Running the Pulumi CLI for one environment."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from slipway.cli.console import say
from slipway.cli.environment import Environment
from slipway.cli.errors import CliError, InterruptedRunError
from slipway.cli.progress import REPEAT_S
from slipway.cli.pulumi.locks import clear_stale_locks
from slipway.cli.pulumi.plugins import plugin_kind, plugin_variables
from slipway.cli.pulumi.repairs import leaving_hosts, with_hosts_applied, with_jobs_kept
from slipway.cli.pulumi.state import read_state

_TICK_S = 0.1
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Resources without a change, and a refresh of any, are named too; the whole output is in the log.
_UNCHANGED = re.compile(r"^    [\w-]+:[\w/-]+:\w+ \S+( running)?\s*$")
_REFRESH = re.compile(r"^\s*~\s.*\brefresh(ing)?\b")
_NOISE = re.compile(r"^\s*(@ \w+ing\.*|\.+)?\s*$", re.IGNORECASE)

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulumi:
    """The CLI of `environment`, in its checkout."""

    environment: Environment

    def prepare_stack(
        self, wanted_jobs: Collection[str] = (), wanted_hosts: Collection[str] = ()
    ) -> None:
        """Leaves the stack ready for an update: it exists, unlocked, nothing half-remembered.

        A creation that was interrupted stays in the state as "pending" and would be warned of for
        ever. All our resources can be created again over themselves, so forgetting it is right.

        A change of a model that failed leaves its old job serving and marked for deletion. Where
        the files now ask for that job again (`wanted_jobs`, IDs), Pulumi would adopt it and, at
        the end, delete it all the same; so it is told to forget what the mark stands for.

        A node's removal that failed may have drained it or ended its agents. Where the files now
        ask for that node again (`wanted_hosts`), its program runs again.
        """
        clear_stale_locks(self.environment)
        state = read_state(self.environment)
        if state is None:
            self._checked(
                "stack", "init", self.environment.name, "--secrets-provider", "passphrase"
            )
            return
        kept = set(wanted_jobs).intersection(state.jobs_to_delete)
        if state.interrupted:
            say(f"an earlier run was interrupted while creating {', '.join(state.interrupted)}")
        if kept:
            say(f"an earlier change failed; still serving and kept: {', '.join(sorted(kept))}")
        back = set(wanted_hosts).intersection(leaving_hosts(self.environment))
        if back:
            say(f"an earlier removal did not end; brought back: {', '.join(sorted(back))}")
        if not state.interrupted and not state.jobs_to_delete and not back:
            return
        exported = self._checked("stack", "export", "--stack", self.environment.name)
        repaired = with_jobs_kept(exported, kept) if state.jobs_to_delete else exported
        repaired = with_hosts_applied(repaired, back) if back else repaired
        if state.interrupted or repaired != exported:
            # Importing an export drops the pending operations; secrets stay encrypted on the way.
            self._checked("stack", "import", "--stack", self.environment.name, given=repaired)

    def up(self, *, log: Path) -> None:
        """Applies the program. The whole output goes to `log`, what changes to the terminal.

        On SIGINT or SIGTERM Pulumi is asked to end, its orderly end is waited for, and
        InterruptedRunError is raised; a second signal makes it end at once. CliError when it fails.
        """
        flags = ("--yes", "--skip-preview", "--suppress-outputs", "--color", "never")
        command = self._command("up", "--stack", self.environment.name, *flags)
        with _following(command, self._variables(), self.environment.checkout, log) as run:
            code = run.wait()
        if run.interrupted:
            raise InterruptedRunError(
                "interrupted; pulumi ended in order and kept what was made",
                fix=f"slipway up -s {self.environment.name} completes it, slipway down -s "
                f"{self.environment.name} removes it",
            )
        if code:
            raise CliError(
                f"pulumi up failed; what was made is kept (log: {log})",
                fix="put right what the lines above say, then run slipway up again: it goes on"
                " from here",
            )

    def preview(self, arguments: Sequence[str]) -> int:
        """Previews on the user's own terminal; returns Pulumi's exit code."""
        command = self._command(
            "preview", "--stack", self.environment.name, *arguments, interactive=True
        )
        with _ignored(signal.SIGINT):  # the terminal sends it to Pulumi too, which ends in order
            return subprocess.run(
                command, cwd=self.environment.checkout, env=self._variables(), check=False
            ).returncode

    def _checked(self, *arguments: str, given: str | None = None) -> str:
        done = subprocess.run(
            self._command(*arguments),
            cwd=self.environment.checkout,
            env=self._variables(),
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CliError(
                f"pulumi {' '.join(arguments[:2])} failed:\n{done.stderr.strip()}",
                fix="put right what it says, then run the same command again",
            )
        return done.stdout

    def _command(self, *arguments: str, interactive: bool = False) -> list[str]:
        mode = [] if interactive else ["--non-interactive"]
        return [str(self.environment.pulumi), *arguments, *mode]

    def _variables(self) -> dict[str, str]:
        kind = plugin_kind(self.environment)
        return {**self.environment.child_environment(), **plugin_variables(kind)}


class _Follower:
    """A running command whose output goes to a file and from there to the terminal.

    A file, not a pipe: when this program is killed, Pulumi still ends in order and frees its lock
    instead of dying of a broken pipe in the middle of a change.
    """

    def __init__(self, log: Path) -> None:
        self.interrupted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log
        self._begun = ""  # a line without its end

    def start(self, command: list[str], variables: dict[str, str], folder: Path) -> None:
        self._log.touch(mode=0o600)
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it once, from us
                preexec_fn=_end_with_parent,  # noqa: PLW1509  (no other thread runs here)
            )
        if self.interrupted:  # while it was being started
            self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Interrupts a command that still runs, and waits for its orderly end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def wait(self) -> int:
        with self._log.open("r", errors="replace") as text:
            shown_s, started_s = time.monotonic(), time.monotonic()
            while True:
                code = self._ended()
                if self._show(self._lines(text)):
                    shown_s = time.monotonic()
                if code is not None:
                    self._show([self._begun])
                    return code
                if time.monotonic() - shown_s >= REPEAT_S:
                    shown_s = time.monotonic()
                    say(f"  … pulumi is at work ({shown_s - started_s:.0f} s)")

    def forward(self, number: int, _frame: FrameType | None) -> None:
        """A signal handler."""
        if not self.interrupted:
            say("interrupting pulumi; waiting for its orderly end (once more: end at once)")
        self.interrupted = True
        if self._process is not None:
            self._process.send_signal(number)

    def _ended(self) -> int | None:
        assert self._process is not None, "started"  # noqa: S101
        try:
            return self._process.wait(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            return None

    def _lines(self, text: TextIO) -> Iterator[str]:
        """What has come, in whole lines: Pulumi may be in the midst of one."""
        for piece in text:
            self._begun += piece
            if self._begun.endswith("\n"):
                line, self._begun = self._begun, ""
                yield line

    def _show(self, lines: Iterable[str]) -> bool:
        shown = False
        for line in lines:
            if is_news(line):
                say(f"  {line.rstrip()}")
                shown = True
        return shown


def is_news(line: str) -> bool:
    """Whether a line of Pulumi's output tells of a change, a message or an error."""
    return not any(pattern.match(line) for pattern in (_NOISE, _REFRESH, _UNCHANGED))


@contextmanager
def _following(
    command: list[str], variables: dict[str, str], folder: Path, log: Path
) -> Iterator[_Follower]:
    follower = _Follower(log)
    with (
        _handled(signal.SIGINT, follower.forward),
        _handled(signal.SIGTERM, follower.forward),
    ):
        follower.start(command, variables, folder)
        try:
            yield follower
        finally:
            follower.end()


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


@contextmanager
def _handled(
    number: signal.Signals, handler: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    # A handler that does nothing, instead of SIG_IGN: a child would inherit that.
    with _handled(number, lambda *_: None):
        yield
