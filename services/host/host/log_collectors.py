"""Bring back a task's log collector (`nomad logmon`) when it has died, which Nomad does not do.

A collector reads its task's output from two named pipes and writes log files. Without one the
output is lost and writing to the pipes fails, until the task or its Nomad agent starts again. A
restarted agent keeps its tasks running and gives each a collector, so this restarts the agent.

    log_collectors.py              an event listener of supervisord that checks at every TICK_5
    log_collectors.py --every-s=5  the same by a clock of its own, under systemd

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from program.errors import HostError, exit_code
from program.folders import Folders

from host.document import Agent, read_agent
from host.processes import PROC, Process, running
from host.supervisor import MARK, Supervisor
from host.supervisors import supervisor_of

SETTLED_S = 15  # a Nomad agent starts its tasks' collectors long before that
PAUSE_S = 10
CALM_S = 3600
PIPE = re.compile(r"data/alloc/[^/]+/alloc/logs/\.[^/]+\.fifo$")


@dataclass(frozen=True, order=True)
class Pipe:
    """A named pipe for a task's output: a path below the folder of its Nomad agent."""

    agent: Path
    path: str


@dataclass(frozen=True)
class Helper:
    """A process Nomad starts beside a task: `kind` is executor or logmon; its open pipes."""

    kind: str
    pipes: frozenset[Pipe]


def unread(helpers: Iterable[Helper]) -> set[Pipe]:
    """The pipes that a running task writes to and no collector reads.

    A task's executor starts after its collector and ends before it. A task that has finished, or
    waits for a restart, has no executor.
    """
    pipes: dict[str, set[Pipe]] = {"executor": set(), "logmon": set()}
    for helper in helpers:
        pipes[helper.kind] |= helper.pipes
    return pipes["executor"] - pipes["logmon"]


@dataclass
class Restraint:
    """Prevents a loop of restarts: each one doubles the pause before the agent's next.

    Restarts are forgotten after an hour without a missing collector on the node.
    """

    restarts: int = 0
    restarted_s: float = 0
    found_s: float = 0

    @property
    def pause_s(self) -> float:
        return PAUSE_S * 2**self.restarts if self.restarts else 0

    def allows(self, now_s: float) -> bool:
        """Whether a restart is allowed now."""
        if now_s - self.found_s > CALM_S:
            self.restarts = 0
        self.found_s = now_s
        return now_s - self.restarted_s >= self.pause_s

    def restarted(self, now_s: float) -> None:
        self.restarts += 1
        self.restarted_s = now_s


class Watcher:
    """Restarts the agents of nodes that lack a collector at two consecutive ticks."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._before: set[Pipe] = set()
        self._restraints: dict[Path, Restraint] = {}

    def tick(self, found: set[Pipe], now_s: float) -> None:
        # /proc is not read atomically: a task that ends meanwhile is reported, but only once.
        lasting, self._before = found & self._before, found
        for folder in sorted({pipe.agent for pipe in lasting}):
            restraint = self._restraints.setdefault(folder, Restraint())
            if restraint.allows(now_s) and (agent := self._settled_agent(folder)) is not None:
                restraint.restarted(now_s)
                lost = ", ".join(pipe.path for pipe in sorted(lasting) if pipe.agent == folder)
                _say(
                    f"nothing reads {lost}: restarting {agent.program}; "
                    f"its next restart is at least {restraint.pause_s:.0f} s away"
                )
                self._supervisor.restart(agent)

    def _settled_agent(self, folder: Path) -> Agent | None:
        """The agent of a folder; None while it stops, starts or is removed."""
        try:
            agent = read_agent(json.loads((folder / "program.json").read_text()))
        except FileNotFoundError:
            return None
        state = self._supervisor.state(agent)
        if state is None or state.uptime_s is None:
            return None
        return agent if state.uptime_s >= SETTLED_S else None


def helpers(nodes: Path) -> Iterator[Helper]:
    """The executors and collectors of the agents below a folder."""
    for process in running():
        kind = "".join(process.argv[1:2])
        if kind in ("executor", "logmon") and process.has_variable(MARK, below=nodes):
            yield Helper(kind=kind, pipes=frozenset(_open_pipes(process)))


def events(source: TextIO, sink: TextIO) -> Iterator[str]:
    """Events from supervisord, each acknowledged when the next is requested; ends with
    supervisord."""
    while True:
        sink.write("READY\n")
        sink.flush()
        header = source.readline()
        if not header:
            return
        # The length is the last field; supervisor.childutils fails if a folder contains a space.
        yield source.read(int(header.rpartition("len:")[2]))
        sink.write("RESULT 2\nOK")
        sink.flush()


def ticks(every_s: float) -> Iterator[None]:
    while True:
        time.sleep(every_s)
        yield


def _open_pipes(process: Process) -> Iterator[Pipe]:
    agent = next(v.partition("=")[2] for v in process.environment if v.startswith(f"{MARK}="))
    with suppress(OSError):  # the process has ended meanwhile
        for descriptor in (PROC / str(process.pid) / "fd").iterdir():
            if found := PIPE.search(str(descriptor.readlink())):
                yield Pipe(agent=Path(agent), path=found[0])


def _say(line: str) -> None:
    """On standard error, which goes to the log: standard output may belong to supervisord."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")


def run(every_s: float) -> None:
    """`every_s`: 0 if supervisord tells the time."""
    folders = Folders.from_environment()
    supervisor = supervisor_of(folders)
    if supervisor is None:
        raise HostError(f"{folders.run} has no supervisor of agents")
    watcher = Watcher(supervisor)
    for _ in ticks(every_s) if every_s else events(sys.stdin, sys.stdout):
        try:
            watcher.tick(unread(helpers(folders.nodes)), time.monotonic())
        except (HostError, OSError) as error:
            _say(str(error))


def main() -> int:
    parser = argparse.ArgumentParser(prog="log_collectors.py")
    parser.add_argument("--every-s", type=float, default=0)
    every_s: float = parser.parse_args().every_s
    return exit_code(lambda: run(every_s))
