"""The life of one replica: clear, load, serve, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import aiohttp
import psutil
from program.liveness.progress import FIRST_BEAT, VARIABLE

from replica.document import ReplicaDocument
from replica.endpoints import Endpoints, taken_port
from replica.engine import (
    EngineMember,
    engine_command,
    engine_environment,
)
from replica.errors import RunError
from replica.group import member_of
from replica.guard import Guard
from replica.home import claim_home
from replica.journal import Journal
from replica.liveness import ReplicaLiveness
from replica.processes import MARKER
from replica.programs import Programs
from replica.settings import Settings
from replica.shared_memory import SharedMemoryLedger
from replica.triton import (
    Beats,
    triton_command,
    triton_environment,
    write_backend_folder,
    write_model_repository,
)
from replica.watch import ProcessWatch

READY_POLL_S = 0.25
HEARTBEAT_S = 10.0
LEDGER_PERIOD_S = 1.0
DRAIN_POLL_S = 0.25
# One look may fall between Triton accepting a request and the engine counting it.
IDLE_LOOKS = 3
TERMINATE_TIMEOUT_S = 20.0
TRITON_STARTS = 3
TRITON_LOAD_S = 120.0  # a hundred times what it usually takes
# Beyond the time in which rank 0 finishes the requests of the group, to end it.
GROUP_ENDS_S = 20.0
# The task's own identity: engine and Triton run third-party code and do not need it.
SCHEDULER_SECRETS = frozenset({"NOMAD_TOKEN", "CONSUL_TOKEN", "CONSUL_HTTP_TOKEN", "VAULT_TOKEN"})


class Launcher:
    """Runs one replica to its end. Use once."""

    def __init__(
        self,
        document: ReplicaDocument,
        settings: Settings,
        programs: Programs,
        journal: Journal,
    ) -> None:
        self._document = document
        self._settings = settings
        self._programs = programs
        self._journal = journal
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._group = member_of(document.group, os.environ, journal)
        self._member: EngineMember | None = None  # once the group has formed
        limits = document.liveness
        self._liveness = ReplicaLiveness(limits, len(document.names)) if limits else None
        if self._group is not None and self._liveness is not None:
            self._liveness.depends_on(self._group)

    async def run(self) -> None:
        """Serves until SIGTERM and drains. Raises RunError otherwise."""
        # Refuses a wrong document first.
        engine_command(self._document, self._settings, self._programs)
        self._home = claim_home(self._settings, self._journal)
        self._stop_asked = asyncio.Event()
        self._part_ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ending = False
        self._watch = ProcessWatch()
        self._handle_signals()
        guard = Guard(self._home, self._watch, self._journal)
        try:
            # No kept-alive connections: Triton would wait for each before it ends.
            connector = aiohttp.TCPConnector(force_close=True)
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                self._ledger_kept(),
                contextlib.AsyncExitStack() as self._while_it_lives,
            ):
                self._endpoints = Endpoints(self._settings, session)
                ready = await self._until_stopped(self._meet())
                ready = ready and await self._until_stopped(self._load())
                if ready:
                    await self._until_stopped(self._until_another_leaves())
                if not ready or await self._finish():
                    await self._terminate()
        finally:
            self._clear(guard)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_asked.set)

    async def _until_stopped(self, work: Awaitable[object]) -> bool:
        """Runs `work` until it is done (True) or a stop is requested (False).

        Raises RunError as soon as a part of the replica ends or stands still.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop_asked.wait())
        try:
            await asyncio.wait((task, stop, self._part_ended), return_when=asyncio.FIRST_COMPLETED)
            if self._part_ended.done():
                raise RunError(self._part_ended.result())
            if task.done():
                task.result()
                return True
            return False
        finally:
            for pending in (task, stop):
                pending.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    async def _meet(self) -> None:
        """Waits for the other members, and ends with any of them from then on."""
        if self._group is None:
            return
        self._member = await self._group.meet(self._while_it_lives)
        losing = asyncio.create_task(self._group.lost())
        losing.add_done_callback(_told(self._on_failure))
        self._while_it_lives.callback(losing.cancel)

    async def _until_another_leaves(self) -> None:
        """Returns if rank 0 is to finish its requests because another member is asked to end."""
        if self._serves and self._group is not None:
            await self._group.out_of_rotation()
        else:
            await asyncio.Event().wait()

    async def _finish(self) -> bool:
        if self._serves:
            return await self._drain()
        assert self._group is not None  # noqa: S101  (only members of groups do not serve)
        await self._group.leave(self._document.drain_timeout_s + GROUP_ENDS_S)
        return True

    @property
    def _serves(self) -> bool:
        return self._group is None or self._group.leads

    async def _load(self) -> None:
        """Brings up both protocols, the engine first: Triton's model is never ready without it."""
        try:
            load = self._load_parts() if self._serves else self._load_workers()
            await asyncio.wait_for(load, self._document.load_timeout_s)
        except asyncio.TimeoutError as error:
            reason = f"not ready after load_timeout_s={self._document.load_timeout_s}"
            taken = "" if self._children else taken_port(self._settings)
            raise RunError(": ".join(filter(None, (reason, taken)))) from error
        pids = self._watch_descendants()
        if not self._serves:
            self._journal.progress("member_started")
            return
        await self._judge(pids)
        names, openai = self._document.names, self._settings.engine_url
        self._journal.progress("ready", names=names, openai=openai)

    async def _load_workers(self) -> None:
        """Those above rank 0: they have no sign of being ready, and rank 0 is not without them."""
        await self._poll(self._ports_are_free, "waiting_for_ports")
        self._start_engine(self._environment())

    async def _load_parts(self) -> None:
        # A dead launcher's children may have held them until now, and Nomad gives a new replica the
        # ports of one that still drains (hashicorp/nomad issue 24904).
        await self._poll(self._ports_are_free, "waiting_for_ports")
        inherited = self._environment()
        if self._liveness is not None:
            self._while_it_lives.enter_context(self._liveness.page(self._settings))
            inherited[VARIABLE] = self._liveness.progress.path
        self._start_engine(inherited)
        model = self._document.names[0]
        await self._poll(self._endpoints.engine_is_healthy, "engine_loading")
        self._journal.progress("engine_warming_up")
        await self._poll(partial(self._endpoints.generates, model), "engine_warming_up")
        await self._load_triton()

    def _start_engine(self, inherited: dict[str, str]) -> None:
        document, settings = self._document, self._settings
        self._journal.progress("engine_starting", model=document.names[0])
        environment = engine_environment(document, settings, inherited, self._home.temporary)
        if self._group is not None:
            environment |= self._group.environment()
        command = engine_command(document, settings, self._programs, self._member)
        engine = self._start("vllm", command, environment)
        self._watch.add(engine.pid, "vllm", self._on_part_end)

    async def _ports_are_free(self) -> bool:
        return not taken_port(self._settings)

    async def _load_triton(self) -> None:
        """Starts Triton and waits until its models are ready; the loaded engine keeps running.

        If Triton ends or hangs before that, it is killed and started again, up to TRITON_STARTS
        times in all: it declares a stub (the process that runs one model's Python code) dead that
        gets no processor for a second, and then aborts or hangs. 11 of 941 starts did, measured
        with 14 at a time on two cores. Only `load_timeout_s` limits the last start.
        """
        home, settings = self._home, self._settings
        write_backend_folder(home.backends, self._programs.triton)
        liveness = self._liveness
        beats = Beats(path=liveness.progress.path, first=FIRST_BEAT) if liveness else None
        write_model_repository(home.repository, self._document.names, settings.engine_url, beats)
        home.triton_folders().before_start()
        for start in range(1, TRITON_STARTS + 1):
            self._journal.progress("triton_starting")
            limit_s = TRITON_LOAD_S if start < TRITON_STARTS else None
            failure = await self._failure_of_triton(limit_s)
            if not failure:
                break
            if start == TRITON_STARTS:
                raise RunError(f"tritonserver {failure} while it loaded, {start} times")
            self._journal.warning(f"tritonserver {failure} while it loaded: starting it again")
            await asyncio.to_thread(home.end_triton)
            await asyncio.to_thread(self._children["tritonserver"].wait)
        home.triton_folders().after_start()

    async def _failure_of_triton(self, limit_s: float | None) -> str:
        """Starts Triton once. Returns "" once its models are ready, else how it failed, as a
        predicate for a message."""
        home, installed = self._home, self._programs.triton
        command = triton_command(
            installed, self._settings, home.repository, home.backends, home.shared_memory_prefix
        )
        environment = triton_environment(installed, self._environment())
        triton = self._start("tritonserver", command, environment)

        async def settled() -> bool:
            return triton.poll() is not None or await self._models_are_ready()

        try:
            await asyncio.wait_for(self._poll(settled, "triton_loading"), limit_s)
        except asyncio.TimeoutError:
            return "was stuck"
        if (code := triton.poll()) is not None:
            return f"ended with exit code {code}"
        self._watch.add(triton.pid, "tritonserver", self._on_part_end)
        return ""

    async def _models_are_ready(self) -> bool:
        for name in self._document.names:
            if not await self._endpoints.model_is_ready(name):
                return False
        return True

    def _start(
        self, name: str, command: list[str], environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        # Their output goes to standard error; standard output is the journal's.
        self._children[name] = subprocess.Popen(
            command, env=environment, cwd=self._home.folder, stdin=subprocess.DEVNULL, stdout=2
        )
        return self._children[name]

    def _environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if k not in SCHEDULER_SECRETS}
        return {**inherited, MARKER: self._home.incarnation}

    def _watch_descendants(self) -> list[int]:
        """Watches engine, workers and stubs: no health check notices the end of a stub. Returns
        their process ids, and those of their parents."""
        watched = [child.pid for child in self._children.values()]
        for name, child in self._children.items():
            for process in psutil.Process(child.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    part = Path(process.cmdline()[0].strip()).name
                    self._watch.add(process.pid, f"{part} of {name}", self._on_part_end)
                    watched.append(process.pid)
        return watched

    async def _judge(self, pids: list[int]) -> None:
        """From now on a replica that stands still for too long is killed."""
        if self._liveness is not None:
            judged = self._liveness.judged(pids, self._endpoints, self._on_failure)
            await self._while_it_lives.enter_async_context(judged)

    def _on_part_end(self, name: str) -> None:
        self._on_failure(f"{name} ended")

    def _on_failure(self, failure: str) -> None:
        if not self._ending and not self._part_ended.done():
            self._journal.error(failure)
            self._part_ended.set_result(failure)

    async def _poll(self, condition: Callable[[], Awaitable[bool]], phase: str) -> None:
        """Polls until true; reports every ten seconds that the phase is still under way."""
        next_heartbeat = time.monotonic() + HEARTBEAT_S
        while not await condition():
            if time.monotonic() >= next_heartbeat:
                self._journal.progress(phase)
                next_heartbeat += HEARTBEAT_S
            await asyncio.sleep(READY_POLL_S)

    @contextlib.asynccontextmanager
    async def _ledger_kept(self) -> AsyncIterator[None]:
        """Notes the replica's shared memory as it appears: after a crash it would be too late."""
        task = asyncio.create_task(self._keep_ledger(self._home.ledger()))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_ledger(self, ledger: SharedMemoryLedger) -> None:
        failing = False
        while True:
            try:
                await asyncio.to_thread(lambda: ledger.observe(self._home.processes()))
                failing = False
            except OSError as error:  # a full disk: the replica keeps running, and tries again
                if not failing:
                    self._journal.warning("shared memory was not noted", error=str(error))
                failing = True
            await asyncio.sleep(LEDGER_PERIOD_S)

    async def _drain(self) -> bool:
        """Waits until both protocols are idle, at most `drain_timeout_s`, new requests included.

        False when the time is over. Then everything is killed: an orderly end of Triton would wait
        again for the remaining requests.
        """
        self._journal.progress("draining")
        deadline = time.monotonic() + self._document.drain_timeout_s
        idle_looks = 0
        while idle_looks < IDLE_LOOKS:
            if self._part_ended.done():
                raise RunError(f"{self._part_ended.result()} while draining")
            if time.monotonic() >= deadline:
                self._journal.warning("drain_timeout_s passed with requests in flight")
                self._ending = True
                return False
            with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError):
                idle_looks = 0 if await self._endpoints.requests_in_flight() else idle_looks + 1
            await asyncio.sleep(DRAIN_POLL_S)
        self._journal.progress("drained")
        return True

    async def _terminate(self) -> None:
        """Sends SIGTERM, first to Triton: it needs the engine until its last answer."""
        self._ending = True
        for name in ("tritonserver", "vllm"):
            if child := self._children.get(name):
                child.terminate()
                try:
                    await asyncio.to_thread(child.wait, TERMINATE_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self._journal.warning(f"{name} did not end on SIGTERM")

    def _clear(self, guard: Guard) -> None:
        if found := self._home.clear(spare=[guard.pid]):
            self._journal.warning("ended by force", **found)
        for child in self._children.values():
            child.wait()
        guard.release()
        self._journal.progress("stopped")


def _told(tell: Callable[[str], None]) -> Callable[[asyncio.Task[str]], None]:
    """Tells a task's result, unless it was cancelled."""
    return lambda task: None if task.cancelled() else tell(task.result())
