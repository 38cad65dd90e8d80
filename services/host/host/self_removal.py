"""Removal of a host from Consul by itself, where no operator does it afterwards.

Agents that end stay members, because most of them come back. One that is told to leave is gone at
once, with everything that was registered on it.
"""

from __future__ import annotations

import json

from program.errors import HostError
from program.folders import to_json, write_private
from program.waiting import say, wait_until

from host.document import Agent, Host
from host.probe import not_ready
from host.supervisor import Supervisor

CONSUL = "consul"
LEAVES = "leave_on_terminate"  # read only when the agent starts


def leave_consul_when_it_ends(supervisor: Supervisor, host: Host) -> None:
    """Starts the Consul agent again, so that its end takes the host off the list of members."""
    for agent in host.agents:
        if agent.name == CONSUL and supervisor.state(agent) is not None:
            _start_again(supervisor, agent)


def _start_again(supervisor: Supervisor, agent: Agent) -> None:
    path = supervisor.folders.agent(agent.host, agent.name) / "config.json"
    if not path.exists():
        return
    owner = supervisor.make_folder(agent)
    write_private(path, to_json({**json.loads(path.read_text()), LEAVES: True}), owner)
    supervisor.stop(agent)
    supervisor.start(agent)
    try:
        wait_until(
            f"{agent.name} on {agent.host}",
            lambda: not_ready(supervisor.folders, agent),
            agent.ready_timeout_s,
        )
    except HostError as error:
        say(f"{agent.host} stays among Consul's members: {error}")
