"""Lost log collectors: which pipes are unread, and when an agent is restarted for that."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host.document import Agent, Endpoint
from host.log_collectors import (
    CALM_S,
    SETTLED_S,
    Helper,
    Pipe,
    Restraint,
    Watcher,
    events,
    helpers,
    unread,
)
from host.supervisor import MARK, State, Supervisor
from host.supervisord import Supervisord
from program.folders import Folders

LOGS = "data/alloc/0a1b/alloc/logs"
TICK_S = 5
LONG_AGO_S = 10_000
OPENS_AND_SLEEPS = """
import os, time
pipe = os.open({path!r}, os.O_RDWR)
print("up", flush=True)
time.sleep(60)
"""


def pipe(task: str, host: str = "cpu-0") -> Pipe:
    return Pipe(agent=Path("/run/nodes") / host / "nomad", path=f"{LOGS}/.{task}.stdout.fifo")


def executor(*pipes: Pipe) -> Helper:
    return Helper(kind="executor", pipes=frozenset(pipes))


def collector(*pipes: Pipe) -> Helper:
    return Helper(kind="logmon", pipes=frozenset(pipes))


def test_a_task_whose_collector_lives_lacks_nothing() -> None:
    assert unread([executor(pipe("web")), collector(pipe("web"))]) == set()


def test_a_task_whose_collector_died_is_found() -> None:
    living = [executor(pipe("web")), executor(pipe("db")), collector(pipe("db"))]
    assert unread(living) == {pipe("web")}


def test_the_collector_of_the_same_task_on_another_node_does_not_count() -> None:
    living = [executor(pipe("web")), collector(pipe("web", host="cpu-1"))]
    assert unread(living) == {pipe("web")}


def test_a_task_that_has_finished_needs_no_collector() -> None:
    assert unread([collector(pipe("weights"))]) == set()
    assert unread([]) == set()


class FakeSupervisor(Supervisord):
    """Remembers restarts; every agent is in the same state."""

    def __init__(self, folders: Folders) -> None:
        super().__init__(folders, Endpoint(address="127.0.0.1", port=1))
        self.restarted: list[str] = []
        self.known: State | None = State("RUNNING", 1, SETTLED_S)

    def restart(self, agent: Agent) -> None:
        self.restarted.append(agent.program)

    def state(self, agent: Agent) -> State | None:
        return self.known


@pytest.fixture
def supervisor(tmp_path: Path) -> FakeSupervisor:
    return FakeSupervisor(Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path))


def lost(supervisor: Supervisor, host: str = "cpu-0") -> set[Pipe]:
    """The pipes of a task without a collector, on a node whose agent is on disk."""
    agent = Agent(
        host=host,
        name="nomad",
        stage=4,
        command=("nomad",),
        ready_url="http://127.0.0.1:1/",
        ready_timeout_s=1,
        stop_timeout_s=1,
    )
    folder = supervisor.folders.agent(host, agent.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.json").write_text(json.dumps(dataclasses.asdict(agent)))
    return {
        Pipe(agent=folder, path=f"{LOGS}/.web.{stream}.fifo") for stream in ("stdout", "stderr")
    }


def tick(watcher: Watcher, *found: set[Pipe], start_s: float = LONG_AGO_S) -> None:
    for number, pipes in enumerate(found):
        watcher.tick(pipes, start_s + number * TICK_S)


def test_a_collector_missing_at_two_ticks_in_a_row_restarts_its_agent_once(
    supervisor: FakeSupervisor,
) -> None:
    tick(Watcher(supervisor), lost(supervisor), lost(supervisor), lost(supervisor))
    assert supervisor.restarted == ["cpu-0-nomad"]


def test_a_collector_missing_at_one_tick_restarts_nothing(supervisor: FakeSupervisor) -> None:
    tick(Watcher(supervisor), lost(supervisor), set(), lost(supervisor))
    assert supervisor.restarted == []


def test_agents_of_other_nodes_keep_running(supervisor: FakeSupervisor) -> None:
    lost(supervisor, "cpu-1")
    found = lost(supervisor) | lost(supervisor, "edge-0")
    tick(Watcher(supervisor), found, found)
    assert supervisor.restarted == ["cpu-0-nomad", "edge-0-nomad"]


@pytest.mark.parametrize(
    "state",
    [None, State("STOPPED"), State("STOPPING"), State("RUNNING", 1, SETTLED_S - 1)],
)
def test_an_agent_that_stops_or_has_just_started_is_left_alone(
    supervisor: FakeSupervisor, state: State | None
) -> None:
    watcher, running = Watcher(supervisor), supervisor.known
    supervisor.known = state
    tick(watcher, lost(supervisor), lost(supervisor))
    assert supervisor.restarted == []
    supervisor.known = running
    watcher.tick(lost(supervisor), LONG_AGO_S + 3 * TICK_S)
    assert supervisor.restarted == ["cpu-0-nomad"]


def test_a_node_that_was_removed_meanwhile_is_not_an_error(supervisor: FakeSupervisor) -> None:
    found = lost(supervisor)
    supervisor.folders.agent("cpu-0", "nomad").joinpath("program.json").unlink()
    tick(Watcher(supervisor), found, found)
    assert supervisor.restarted == []


def test_restarts_that_do_not_help_become_rare(supervisor: FakeSupervisor) -> None:
    tick(Watcher(supervisor), *([lost(supervisor)] * (24 * 3600 // TICK_S)))
    assert 10 <= len(supervisor.restarted) <= 14


def test_each_restart_doubles_the_pause_before_the_next() -> None:
    restraint = Restraint()
    assert restraint.allows(LONG_AGO_S)
    restraint.restarted(LONG_AGO_S)
    assert not restraint.allows(LONG_AGO_S + 19)
    assert restraint.allows(LONG_AGO_S + 20)
    restraint.restarted(LONG_AGO_S + 20)
    assert not restraint.allows(LONG_AGO_S + 59)
    assert restraint.allows(LONG_AGO_S + 60)


def test_an_hour_without_a_lost_collector_forgets_the_restarts() -> None:
    restraint = Restraint(restarts=12, restarted_s=LONG_AGO_S, found_s=LONG_AGO_S)
    assert not restraint.allows(LONG_AGO_S + CALM_S)
    assert restraint.allows(LONG_AGO_S + CALM_S + CALM_S + 1)
    assert restraint.restarts == 0


def test_every_event_is_answered_and_the_end_of_supervisord_ends_the_watcher() -> None:
    header = (
        "ver:3.0 server:/a run serial:1 pool:log-collectors poolserial:1 eventname:TICK_5 len:7\n"
    )
    source, sink = io.StringIO(f"{header}when:10{header}when:15"), io.StringIO()
    assert list(events(source, sink)) == ["when:10", "when:15"]
    assert sink.getvalue() == "READY\nRESULT 2\nOKREADY\nRESULT 2\nOKREADY\n"


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[Path]:
    """The folder of an agent of which a process named logmon has a pipe open."""
    agent = tmp_path / "nodes/cpu-0/nomad"
    (agent / LOGS).mkdir(parents=True)
    path = agent / LOGS / ".web.stdout.fifo"
    os.mkfifo(path)
    (tmp_path / "logmon").write_text(OPENS_AND_SLEEPS.format(path=str(path)))
    with subprocess.Popen(
        [sys.executable, "logmon"],
        cwd=tmp_path,
        env={**os.environ, MARK: str(agent)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield agent
        process.kill()


def test_a_collector_is_known_by_the_pipes_it_has_open(helper: Path, tmp_path: Path) -> None:
    found = Pipe(agent=helper, path=f"{LOGS}/.web.stdout.fifo")
    assert list(helpers(tmp_path / "nodes")) == [collector(found)]
    assert list(helpers(tmp_path / "nodes-of-another")) == []
