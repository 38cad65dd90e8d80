"""The progress of long work: phases with their times, and what goes on within them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from cli.console import notes, say
from cli.live.board import FAILED, READY, Board, View
from cli.live.clock import clock
from cli.live.durations import FILE, Durations
from cli.live.work import Phase
from toolchain.settings import default_cache

CANCELLED = "cancelled"  # the detail of what another failure has ended (toolchain/lanes.py)


def _view() -> View:
    # Imported here: most commands show no progress.
    if notes.redraws:
        from cli.live.block import Block  # noqa: PLC0415

        return Block(notes)
    from cli.live.log import Log  # noqa: PLC0415

    return Log(notes)


board = Board(_view, notes.clock, Durations(lambda: default_cache() / FILE))


class Phases:
    """The phases of a command; `seconds` has the time of each that has ended. `of` says of which
    command, so that the same phase of another one is not expected to take as long."""

    def __init__(self, of: str = "") -> None:
        self.seconds: dict[str, float] = {}
        self._of = of
        self._started_s = notes.clock()

    @property
    def elapsed_s(self) -> float:
        return notes.clock() - self._started_s

    @contextmanager
    def phase(self, name: str, about: str) -> Iterator[None]:
        phase = Phase(
            name=name,
            about=about,
            command_s=self._started_s,
            since_s=notes.clock(),
            key=f"{self._of}: {name}: {about}",
        )
        try:
            with board.phase(phase, f"{clock(self.elapsed_s)}  {name}: {about}"):
                yield
        except BaseException as error:
            self._ended(phase, _how(error), style="red")
            raise
        self._ended(phase, "done in", style="green")

    def _ended(self, phase: Phase, how: str, *, style: str) -> None:
        self.seconds[phase.name] = took_s = round(notes.clock() - phase.since_s, 2)
        say(f"{clock(self.elapsed_s)}  {phase.name}: {how} {took_s:.1f} s", style=style)


def _how(error: BaseException) -> str:
    return "failed after" if isinstance(error, Exception) else "interrupted after"


def telling(what: Callable[[], str]) -> AbstractContextManager[None]:
    """Shows what is being waited for, once it lasts longer than a moment."""
    return board.wait(what)


class ToolchainProgress:
    """Shows the state of each tool or environment; a log says when one is ready.

    Called from several threads.
    """

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def __call__(self, name: str, state: str, elapsed_s: float, detail: str) -> None:
        board.tool(name, state, detail)
        has_begun, took = name in self._begun, clock(elapsed_s).strip()
        if state == FAILED and detail != CANCELLED:
            say(f"  {name}: failed after {took}: {detail}" if has_begun else f"  {name}: {detail}")
        elif state == READY and has_begun:  # otherwise it existed already
            board.log(f"  {name}: ready after {took}")
        if state in (READY, FAILED):
            self._begun.discard(name)
        else:
            self._begun.add(name)
