"""Whether the replica moves: its liveness page, and the parts that are judged once it serves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial

from program.liveness.clock import OwnClock, waited_for_a_processor
from program.liveness.page import page
from program.liveness.progress import Progress, Seen
from program.liveness.stillness import LEAST_BEAT_LIMIT_S, limit_s
from program.liveness.watcher import Part, Verdict, Watcher

from replica.document import Liveness
from replica.endpoints import Endpoints
from replica.errors import RunError
from replica.group import GroupMember
from replica.settings import Settings

ASK_PERIOD_S = 1.0
# An answer that comes late on a busy machine is no sign of anything.
MISSES = 3
LISTENS_WITHIN_S = 0.5  # on this machine: refused or accepted at once, unless it is very busy


class Asked:
    """A page that is asked each second: its answers are its steps, and three misses in a row are
    work that waits."""

    def __init__(self) -> None:
        self._answers = 0
        self._misses = 0

    async def keep_asking(self, answers: Callable[[], Awaitable[bool]]) -> None:
        while True:
            if await answers():
                self._answers, self._misses = self._answers + 1, 0
            else:
                self._misses += 1
            await asyncio.sleep(ASK_PERIOD_S)

    def seen(self) -> Seen:
        return Seen(self._answers, int(self._misses >= MISSES))


def _loading(address: str, port: int) -> Verdict:
    """Of a replica whose parts are not judged yet: it does not move before its API server listens,
    which vLLM's does once the engine has loaded."""
    with socket.socket() as probe:
        probe.settimeout(LISTENS_WITHIN_S)
        listens = probe.connect_ex((address, port)) == 0
    return Verdict(moving=listens, part="API server")


class ReplicaLiveness:
    """Of the engine, its API server, Triton and Triton's stubs.

    The engine and its API server are judged by the steps that reach the API server while requests
    are outstanding; without any, the API server is asked whether it answers.
    """

    def __init__(self, limits: Liveness, stubs: int) -> None:
        self._limits = limits
        self._stubs = stubs
        self.progress = Progress.create(beating_parts=stubs)
        self._api_server, self._triton = Asked(), Asked()
        self._verdict = lambda: Verdict(moving=False, part="API server")
        self._group: GroupMember | None = None

    def depends_on(self, group: GroupMember) -> None:
        """Says from now on that the replica does not move while its group is suspect, and turns
        requests away while a member may be lost."""
        self._group = group

    @contextlib.contextmanager
    def page(self, settings: Settings) -> Iterator[None]:
        """Raises RunError if its port is taken."""
        if settings.port_liveness is None:
            yield
            return
        address, port = settings.address, settings.port_liveness
        self._verdict = partial(_loading, address, settings.port_openai)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(page(address, port, self._latest_verdict))
            except OSError as error:
                raise RunError(f"{address}:{port}: {error.strerror}") from error
            yield

    @contextlib.asynccontextmanager
    async def judged(
        self, pids: Sequence[int], endpoints: Endpoints, on_stall: Callable[[str], None]
    ) -> AsyncIterator[None]:
        """Looks at the parts, whose processes have these ids, within the block. A part that has
        stalled is told once, as a sentence."""
        watcher = Watcher(self._parts(), OwnClock(partial(waited_for_a_processor, pids)))
        self._verdict = lambda: watcher.verdict
        ended, loop = threading.Event(), asyncio.get_running_loop()

        def stalled(part: Part) -> None:
            said = f"the {part.name} stood still for {part.stillness.still_for_s:.1f} s"
            loop.call_soon_threadsafe(on_stall, said)

        asking = [
            asyncio.create_task(self._api_server.keep_asking(endpoints.api_server_answers)),
            asyncio.create_task(self._triton.keep_asking(endpoints.triton_answers)),
        ]
        # A thread, because the launcher's own loop may be busy.
        looking = asyncio.create_task(asyncio.to_thread(watcher.run, ended, stalled))
        try:
            yield
        finally:
            ended.set()
            for task in asking:
                task.cancel()
            await asyncio.gather(looking, *asking, return_exceptions=True)

    def _latest_verdict(self) -> Verdict:
        if self._group is None:
            return self._verdict()
        # Before the answer: Envoys need up to a second to see the page.
        self.progress.turn_away(self._group.may_be_lost)
        if self._group.is_suspect:
            return Verdict(moving=False, part="group")
        return self._verdict()

    def _parts(self) -> list[Part]:
        limit, stall = limit_s(self._limits.longest_step_s), self._limits.stall_s
        parts: dict[str, Callable[[], Seen]] = {
            "engine": self.progress.seen,
            "API server": self._idle_api_server,
            "Triton server": self._triton.seen,
        }
        return [
            *(
                Part(name=name, seen=seen, limit_s=limit, stall_s=stall)
                for name, seen in parts.items()
            ),
            *(
                Part(
                    name="Triton stub",
                    seen=partial(self._stub, number),
                    limit_s=max(limit, LEAST_BEAT_LIMIT_S),
                    stall_s=max(stall, LEAST_BEAT_LIMIT_S),
                )
                for number in range(self._stubs)
            ),
        ]

    def _stub(self, number: int) -> Seen:
        """Triton serves when the parts are judged: a stub without a beat has stopped before."""
        return Seen(self.progress.beats(number).steps, 1)

    def _idle_api_server(self) -> Seen:
        seen = self._api_server.seen()
        return Seen(seen.steps, 0) if self.progress.seen().outstanding else seen
