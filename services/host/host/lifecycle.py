"""Apply, start, stop and remove the agents of hosts under the environment's supervisor."""

from __future__ import annotations

import itertools
import shutil
import socket
import urllib.parse
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from program.errors import HostError, InputError
from program.folders import Folders, make_private_folder, write_private
from program.waiting import say, wait_until

from host import introduction
from host.agent_files import (
    agents_on_disk,
    folders_of_agents,
    forget_record,
    leader_awaited,
    reload_needed,
    restart_needed,
    write_agent,
)
from host.departure import forget
from host.document import Agent, Host
from host.prerequisites import wait_for_prerequisites
from host.probe import knows_no_leader, not_ready, shows_old_certificate
from host.self_removal import leave_consul_when_it_ends
from host.supervisor import Supervisor
from host.supervisors import supervisor_for, supervisor_of
from host.tasks import finish, reap

RELOAD_TIMEOUT_S = 30
LEADER_TIMEOUT_S = 60


def apply(folders: Folders, host: Host, secrets: dict[str, Any]) -> None:
    """Apply the document to a host's agents; an agent whose files are unchanged keeps running."""
    supervisor = supervisor_for(folders, host)
    leaving = folders.leaving(host.name)
    if host.departure and leaving.exists():
        supervisor.stay(host, host.departure)
        folders.joined(host.name).unlink(missing_ok=True)  # it may have become a new node
        leaving.unlink()
    with supervisor.locked():
        supervisor.guard(host.firewall)
    tokens = {}
    if host.joining:
        tokens = introduction.tokens_of(folders, host, host.joining, secrets)
        secrets = introduction.with_tokens(secrets, tokens)
    for agent in host.agents:
        with supervisor.locked():
            if supervisor.ensure_running():
                start_in_stages(supervisor, _known(supervisor))
            write_agent(supervisor, host, agent, secrets)
        if host.joining:
            introduction.introduce(folders, agent)
        if agent.name in tokens:
            introduction.remember(folders, agent, tokens[agent.name])
        _take_up(supervisor, host, agent)
        _start(supervisor, agent)
        _wait_until_ready(supervisor, agent)
        _wait_for_leader(supervisor, host, agent)
        _take_up_certificate(supervisor, agent)
    if host.joining:
        introduction.complete(folders, host)


def start(folders: Folders) -> None:
    """Start every agent on disk: after `stop`, a reboot, or a crash of the supervisor."""
    supervisor = _known_supervisor(folders)
    with supervisor.locked():
        supervisor.ensure_running()
        agents = _known(supervisor)
    start_in_stages(supervisor, agents)


def stop(folders: Folders) -> None:
    """End all agents and tasks of the environment; unmount and remove what they left in the kernel.

    Works without a running supervisor and without Pulumi. Data on disk is kept; `start` continues
    with it.
    """
    supervisor = supervisor_of(folders)
    if supervisor is not None:
        with supervisor.locked():
            if supervisor.answers():
                for agent in reversed(agents_on_disk(folders)):
                    supervisor.stop(agent)
            supervisor.shut_down()
    reap(folders.nodes)
    say("all agents and tasks of this environment have ended")


def remove(folders: Folders, host: Host) -> None:
    """End a host's agents and their tasks, tell the cluster, and delete the host's data.

    Until it is done, a file marks the host as leaving, so that a failed removal can be undone.
    """
    leaving = folders.leaving(host.name)
    supervisor = supervisor_of(folders)
    if supervisor is not None and host.departure:
        make_private_folder(leaving.parent)
        leaving.touch()
        supervisor.drain(host, host.departure)
    by_itself = host.departure is not None and host.departure.by_itself
    if supervisor is not None:
        with supervisor.locked():
            if by_itself:
                leave_consul_when_it_ends(supervisor, host)
            for agent in reversed(host.agents):
                # First, so that nothing starts a half-removed host if this run is killed.
                forget_record(folders, agent)
                supervisor.unload(agent)
    if by_itself and host.joining:
        introduction.log_out(folders, host, host.joining)
    for agent in reversed(host.agents):
        folder = folders.agent(agent.host, agent.name)
        if host.departure:
            finish(folder, host.departure.drain_timeout_s)
        reap(folder)
        shutil.rmtree(folder, ignore_errors=not folder.exists())
        say(f"{agent.name} on {agent.host}: removed")
    if host.departure and not host.joining:
        forget(folders, host.name, host.departure)
    for mark in (folders.joined(host.name), leaving):
        mark.unlink(missing_ok=True)
    with suppress(OSError):  # the host's other agents have their own documents
        leaving.parent.rmdir()
    _remove_last(folders, supervisor)


def status(folders: Folders) -> list[dict[str, Any]]:
    """One record per agent: host, agent, state, pid, uptime_s, ready. Empty before `apply`."""
    supervisor = supervisor_of(folders)
    answers = supervisor is not None and supervisor.answers()
    records = []
    for agent in agents_on_disk(folders):
        state = supervisor.state(agent) if supervisor is not None and answers else None
        records.append(
            {
                "host": agent.host,
                "agent": agent.name,
                "state": state.name if state else "STOPPED",
                "pid": state.pid if state else None,
                "uptime_s": state.uptime_s if state else None,
                "ready": not_ready(folders, agent) is None,
            }
        )
    return records


def start_in_stages(supervisor: Supervisor, agents: Iterable[Agent]) -> None:
    for _, group in itertools.groupby(agents, key=lambda agent: agent.stage):
        stage = list(group)
        for agent in stage:
            _start(supervisor, agent)
        for agent in stage:
            _wait_until_ready(supervisor, agent)


def _known(supervisor: Supervisor) -> list[Agent]:
    """The agents on disk, after telling the supervisor about all of them; running ones keep
    running."""
    agents = agents_on_disk(supervisor.folders)
    for agent in agents:
        if supervisor.state(agent) is None:
            supervisor.load(agent)
    return agents


def _take_up(supervisor: Supervisor, host: Host, agent: Agent) -> None:
    """End an agent whose files changed; the supervisor then has its version on disk."""
    mark, state = restart_needed(supervisor.folders, agent), supervisor.state(agent)
    if mark.exists() or state is None:
        if state is not None and state.runs and agent.name in host.leader_urls:
            write_private(leader_awaited(supervisor.folders, agent), "")
        supervisor.stop(agent)  # may take half a minute: not under the lock
        with supervisor.locked():
            supervisor.load(agent)
        mark.unlink(missing_ok=True)
        reload_needed(supervisor.folders, agent).unlink(missing_ok=True)


def _wait_for_leader(supervisor: Supervisor, host: Host, agent: Agent) -> None:
    """After a restart of one of several servers: the next one may restart once it is back.

    Without a leader the others are down, or are not there yet: they may need what comes next.
    """
    mark, url = leader_awaited(supervisor.folders, agent), host.leader_urls.get(agent.name)
    if url is None or not mark.exists():
        return
    what = f"{agent.name} on {agent.host} finds a leader"
    try:
        wait_until(what, lambda: knows_no_leader(supervisor.folders, agent, url), LEADER_TIMEOUT_S)
    except HostError as error:
        say(str(error))
    mark.unlink()


def _take_up_certificate(supervisor: Supervisor, agent: Agent) -> None:
    """Have a running agent show its renewed certificate, without ending it."""
    mark = reload_needed(supervisor.folders, agent)
    if mark.exists():
        supervisor.reload(agent)
        wait_until(
            f"{agent.name} on {agent.host}",
            lambda: shows_old_certificate(supervisor.folders, agent),
            RELOAD_TIMEOUT_S,
        )
        mark.unlink()


def _start(supervisor: Supervisor, agent: Agent) -> None:
    """Start an agent unless it runs. Checks its port first: another program there would answer
    instead."""
    state = supervisor.state(agent)
    if state is not None and state.runs:
        return
    wait_for_prerequisites(supervisor.folders, agent)
    supervisor.end_orphan(agent)
    url = urllib.parse.urlsplit(agent.ready_url)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((url.hostname, url.port))
        except OSError as error:
            raise HostError(
                f"{agent.name} on {agent.host} cannot listen on {url.netloc}: {error}\n"
                "fix: end the program that does, or set another network in the environment's file"
            ) from None
    supervisor.start(agent)


def _wait_until_ready(supervisor: Supervisor, agent: Agent) -> None:
    what = f"{agent.name} on {agent.host}"
    took_s = wait_until(what, lambda: _missing(supervisor, agent), agent.ready_timeout_s)
    say(f"{what}: answers after {took_s:.1f} s")


def _missing(supervisor: Supervisor, agent: Agent) -> str | None:
    state = supervisor.state(agent)
    if state is None or state.ended:
        raise HostError(f"{agent.name} on {agent.host} ended:\n{_log_end(supervisor, agent)}")
    missing = not_ready(supervisor.folders, agent)
    if missing is None:
        return None
    return f"{missing}; its log ends: {_log_end(supervisor, agent, lines=1)}"


def _log_end(supervisor: Supervisor, agent: Agent, lines: int = 8) -> str:
    written = [line.strip() for line in supervisor.log_end(agent)]
    return "\n".join([line for line in written if line][-lines:]) or "it wrote no log"


def _known_supervisor(folders: Folders) -> Supervisor:
    supervisor = supervisor_of(folders)
    if supervisor is None:
        raise InputError(f"{folders.run} holds no agents: run `slipway up` first")
    return supervisor


def _remove_last(folders: Folders, supervisor: Supervisor | None) -> None:
    """Once the last agent's folder is gone, remove the supervisor and the operator's credentials
    too."""
    if supervisor is None or folders_of_agents(folders):
        return
    with supervisor.locked():
        if not folders_of_agents(folders):
            for folder in (folders.nodes, folders.tokens, folders.operator, folders.snapshots):
                shutil.rmtree(folder, ignore_errors=True)  # another removal may be faster
            supervisor.remove()
