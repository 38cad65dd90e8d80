"""Runs the Pulumi CLI for one environment."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from cli.console import say
from cli.environment import Environment
from cli.errors import CliError, InterruptedRunError
from cli.machine.children import ended_by
from cli.progress import board
from cli.pulumi.plugin_server import must_have_or_reach
from cli.pulumi.plugins import keep_kind, say_what_is_missing
from cli.pulumi.resource_rows import ResourceRow, resource_row
from cli.pulumi.tracebacks import Tracebacks

_TICK_S = 0.1
# Pulumi also names unchanged and refreshed resources; the full output is in the log.
_UNCHANGED = re.compile(r"^    [\w-]+:[\w/-]+:\w+ \S+( running)?\s*$")
_REFRESH = re.compile(r"^\s*~\s.*\brefresh(ing)?\b")
# The kind of plugins is printed once, before Pulumi starts.
_PLUGIN = re.compile(r".*\bwarning: using pulumi-resource-[\w-]+ from \$PATH at ")
_NOISE = re.compile(r"^\s*(@ \w+ing\.*|\.+)?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulumi:
    """The CLI for `environment`, run in its checkout. `variables` are all its environment
    variables, which select the backend and the secrets provider."""

    environment: Environment
    variables: Mapping[str, str]

    def up(
        self,
        *,
        log: Path,
        only: Sequence[str] = (),
        refreshed: bool = False,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """Applies the program, or only these resources (URNs) of it, which are `refreshed` before,
        or not. The full output goes to `log`, changes to the terminal. `meanwhile` is called while
        Pulumi starts.

        On SIGINT or SIGTERM, Pulumi is interrupted and waited for, and InterruptedRunError is
        raised; a second signal ends it at once. CliError if Pulumi fails.
        """
        name = self.environment.name
        targets = [part for urn in only for part in ("--target", urn)]
        without_refresh = ["--refresh=false"] if targets and not refreshed else []
        self._apply(
            "up",
            log,
            *without_refresh,
            *targets,
            interrupted=InterruptedRunError(
                "interrupted; pulumi ended cleanly and kept what was created",
                fix=f"slipway up -s {name} completes it, slipway down -s {name} removes it",
            ),
            failed=CliError(
                f"pulumi up failed; what was created is kept (log: {log})",
                fix="correct what the lines above report, then run slipway up again: it continues"
                " from here",
            ),
            meanwhile=meanwhile,
        )

    def destroy(self, *, log: Path) -> None:
        """Destroys every resource of the stack; output and signals are as in `up`. Resources that
        could not be destroyed stay in the state, and the empty stack is kept."""
        again = f"slipway down -s {self.environment.name}"
        self._apply(
            "destroy",
            log,
            interrupted=InterruptedRunError(
                "interrupted; pulumi ended cleanly, and the state keeps what still exists",
                fix=f"{again} continues from here",
            ),
            failed=CliError(
                f"pulumi destroy failed; the state keeps what still exists (log: {log})",
                fix=f"correct what the lines above report, then run {again} again: it continues"
                " from here",
            ),
        )

    def preview(self, arguments: Sequence[str]) -> int:
        """Previews on the user's own terminal; returns Pulumi's exit code."""
        command = self._command(
            "preview", "--stack", self.environment.name, *arguments, interactive=True
        )
        must_have_or_reach(self.environment, self._home, self.variables)
        with _ignored(signal.SIGINT):  # the terminal sends it to Pulumi too, which ends cleanly
            code = subprocess.run(
                command, cwd=self.environment.checkout, env=self.variables, check=False
            ).returncode
        if code:
            say_what_is_missing(self.environment, self._home)
        return code

    def output(self, *arguments: str, given: str | None = None) -> str:
        """The output of a command that changes no resource. CliError with the reason if it
        fails."""
        done = subprocess.run(
            self._command(*arguments),
            cwd=self.environment.checkout,
            env=self.variables,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CliError(
                f"pulumi {' '.join(arguments[:2])} failed:\n{done.stderr.strip()}",
                fix="correct what it reports, then run the same command again",
            )
        return done.stdout

    def _apply(
        self,
        operation: str,
        log: Path,
        *arguments: str,
        interrupted: CliError,
        failed: CliError,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        flags = ("--yes", "--skip-preview", "--suppress-outputs", "--color", "never")
        command = self._command(operation, "--stack", self.environment.name, *flags, *arguments)
        must_have_or_reach(self.environment, self._home, self.variables)
        keep_kind(self.environment, self._home)
        try:
            with (
                board.operations(),
                _following(command, self.variables, self.environment.checkout, log) as run,
            ):
                if meanwhile is not None:
                    meanwhile()
                code = run.wait()
        finally:
            keep_kind(self.environment, self._home)  # a first run has downloaded official plugins
        if run.interrupted:
            raise interrupted
        if code:
            say_what_is_missing(self.environment, self._home)
            raise failed

    @property
    def _home(self) -> Path:
        return Path(self.variables.get("PULUMI_HOME") or Path.home() / ".pulumi")

    def _command(self, *arguments: str, interactive: bool = False) -> list[str]:
        mode = [] if interactive else ["--non-interactive"]
        return [str(self.environment.pulumi), *arguments, *mode]


class _Follower:
    """A running command whose output goes to a file and from there to the terminal.

    It is a file and not a pipe so that, if this program is killed, Pulumi still ends cleanly and
    releases its lock instead of failing on a broken pipe in the middle of a change.
    """

    def __init__(self, log: Path) -> None:
        self.interrupted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log
        self._begun = ""  # an incomplete line
        self._tracebacks = Tracebacks()

    def start(self, command: list[str], variables: Mapping[str, str], folder: Path) -> None:
        self._log.touch(mode=0o600)
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it only through this program
                preexec_fn=ended_by(signal.SIGINT),  # noqa: PLW1509  (no other thread runs here)
            )
        if self.interrupted:  # a signal arrived while it was being started
            self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Interrupts a running command, and waits until it has ended cleanly."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def wait(self) -> int:
        with self._log.open("r", errors="replace") as text:
            while True:
                code = self._ended()
                self._show(self._lines(text))
                if code is not None:
                    self._show([self._begun])
                    return code

    def forward(self, number: int, _frame: FrameType | None) -> None:
        """A signal handler."""
        if not self.interrupted:
            say("interrupting pulumi; waiting for it to end (interrupt again to end it at once)")
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
        """The new output in whole lines; Pulumi may be in the middle of one."""
        for piece in text:
            self._begun += piece
            if self._begun.endswith("\n"):
                line, self._begun = self._begun, ""
                yield line

    def _show(self, lines: Iterable[str]) -> None:
        for line in lines:
            # An interrupted program's traceback says nothing useful; the log keeps it.
            is_noise = self.interrupted and self._tracebacks.covers(line)
            if not is_news(line) or is_noise:
                continue
            row = resource_row(line)
            if row is None or row.must_be_read:
                say(f"  {line.rstrip()}")
            if row is not None and not row.is_component:
                _put(row, line)


def _put(row: ResourceRow, line: str) -> None:
    if row.progress == "changing":
        board.operation(row.key, row.name, row.state, row.said)
    elif row.progress == "changed":
        board.changed(row.key, f"  {line.rstrip()}")
    else:
        board.dropped(row.key)


def is_news(line: str) -> bool:
    """Whether a line of Pulumi's output reports a change, a message or an error."""
    return not any(pattern.match(line) for pattern in (_NOISE, _REFRESH, _UNCHANGED, _PLUGIN))


@contextmanager
def _following(
    command: list[str], variables: Mapping[str, str], folder: Path, log: Path
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
    # A handler that does nothing, because a child would inherit SIG_IGN.
    with _handled(number, lambda *_: None):
        yield
