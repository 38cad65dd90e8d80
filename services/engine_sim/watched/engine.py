"""The engine's process and its watcher, which end together.

The watcher answers the liveness page, passes on signals, and kills an engine that has stood still
for `stall_s`. If the watcher is killed, the kernel ends the engine.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from program.liveness.clock import OwnClock, waited_for_a_processor
from program.liveness.page import page
from program.liveness.progress import VARIABLE, Progress
from program.liveness.stillness import LEAST_BEAT_LIMIT_S, limit_s
from program.liveness.watcher import Part, Verdict, Watcher
from simulator.document import Liveness

from watched.group import GroupMember

ENGINE = Path(__file__).resolve().parent.parent / "engine_sim.py"
_ENDS_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL")  # replaces itself with the command
_PORT_POLL_S = 0.5
_LOG = logging.getLogger("engine_sim")


class WatchedEngine:
    """Runs an engine to its end. Use once."""

    def __init__(
        self,
        command: Sequence[str],
        liveness: Liveness,
        address: str,
        port: int,
        member: GroupMember | None = None,
    ) -> None:
        self._command = command
        self._liveness = liveness
        self._listener = (address, port)
        self._member = member  # whose group has formed
        self._ended = threading.Event()
        self._killed = False
        self._leaving = False

    def run(self) -> int:
        progress = Progress.create()
        self._engine = subprocess.Popen(
            [*_ENDS_WITH_ITS_PARENT, *self._command],
            env={
                **os.environ,
                VARIABLE: progress.path,
                **(self._member.environment() if self._member else {}),
            },
            start_new_session=True,  # a terminal's signals reach it once, from here
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_end)
        if self._member is not None:
            self._member.on_lost(self._group_ended)
            if self._member.leads:
                self._member.on_another_leaves(self._engine.terminate)
        watching = threading.Thread(target=self._watch, args=(progress,))
        watching.start()
        code = self._engine.wait()
        self._ended.set()
        watching.join()
        if self._killed:
            return 1
        return code if code >= 0 else _end_by(-code)

    def _asked_to_end(self, number: int, _frame: object) -> None:
        """A member that serves nothing lets rank 0 finish the requests of the group."""
        if self._member is None or self._member.leads:
            self._engine.send_signal(number)
        else:
            self._leaving = True
            self._member.leave()

    def _group_ended(self, reason: str) -> None:
        _LOG.error("the group has ended: %s", reason)
        if self._leaving:
            self._engine.terminate()
        else:
            self._killed = True
            self._engine.kill()

    def _verdict(self, watcher: Watcher, progress: Progress) -> Verdict:
        if self._member is None:
            return watcher.verdict
        # Before the answer: Envoys need up to a second to see the page.
        progress.turn_away(self._member.may_be_lost)
        if self._member.is_suspect:
            return Verdict(moving=False, part="group")
        return watcher.verdict

    def _watcher(self, progress: Progress) -> Watcher:
        limit, stall = limit_s(self._liveness.longest_step_s), self._liveness.stall_s
        engine = Part(name="engine", seen=progress.seen, limit_s=limit, stall_s=stall)
        # Nobody counts a request that a server does not read.
        server = Part(
            name="server",
            seen=partial(progress.beats, 0),
            limit_s=max(limit, LEAST_BEAT_LIMIT_S),
            stall_s=max(stall, LEAST_BEAT_LIMIT_S),
        )
        waited = partial(waited_for_a_processor, [self._engine.pid])
        return Watcher([engine, server], OwnClock(waited))

    def _watch(self, progress: Progress) -> None:
        watcher = self._watcher(progress)
        verdict = partial(self._verdict, watcher, progress)
        with contextlib.ExitStack() as stack:
            while not self._ended.is_set():
                try:
                    stack.enter_context(page(*self._listener, verdict))
                except OSError:  # a replica that still drains has it, as it has the engine's ports
                    self._ended.wait(_PORT_POLL_S)
                else:
                    watcher.run(self._ended, self._kill)
                    self._ended.wait()

    def _kill(self, stalled: Part) -> None:
        _LOG.error(
            "the %s stood still for %.1f s: it is killed",
            stalled.name,
            stalled.stillness.still_for_s,
        )
        self._killed = True
        self._engine.kill()


def _end_by(number: int) -> int:
    """Ends this process as the engine ended; for a signal that ends nothing, its exit code."""
    with contextlib.suppress(OSError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
