"""What keeps the agents of a host running, whichever program does it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from program.folders import Folders, Owner

from host.document import Agent, Departure, Host
from host.firewall_rules import Firewall

# An agent's folder, in its environment: processes that the agent starts inherit it and are found by
# it.
MARK = "SLIPWAY_AGENT"
LOG_LINES = 40
RECORD = "endpoint.json"  # in <run>/supervisor: which supervisor the environment was set up with


@dataclass(frozen=True)
class State:
    """What the supervisor knows of an agent: its state, by supervisord's name, and its process with
    its start time, if it has one."""

    name: str
    pid: int | None = None
    uptime_s: int | None = None

    @property
    def runs(self) -> bool:
        """Whether the agent runs, or will again without help."""
        return self.name in ("RUNNING", "STARTING", "BACKOFF")

    @property
    def ended(self) -> bool:
        """Whether the agent has ended and will not start again without help."""
        return self.name in ("FATAL", "EXITED", "STOPPED")


class Supervisor(Protocol):
    """The supervisor of an environment's agents on this machine."""

    @property
    def folders(self) -> Folders: ...

    def locked(self) -> AbstractContextManager[None]:
        """One change of the set of agents at a time: documents are applied in parallel."""

    def ensure_running(self) -> bool:
        """Prepare the environment's folders, and start the supervisor unless it answers. Returns
        whether it was started and so knows no agents."""

    def guard(self, firewall: Firewall | None) -> None:
        """Close the ports of members to others from now on and after every start of the machine;
        None opens them. Before the agents of the document change."""

    def answers(self) -> bool: ...

    def shut_down(self) -> None:
        """End what still runs of the environment, except tasks."""

    def remove(self) -> None:
        """After the last agent: end the supervisor and delete everything it has made."""

    def make_folder(self, agent: Agent) -> Owner | None:
        """The agent's folder. Returns whose its files will be; None for this program's user."""

    def is_current(self, agent: Agent) -> bool:
        """Whether the supervisor's configuration of the agent on disk is current."""

    def load(self, agent: Agent) -> None:
        """Write the agent's configuration and have the supervisor read it. The agent does not run
        afterwards."""

    def unload(self, agent: Agent) -> None:
        """End the agent, and have the supervisor forget it."""

    def drain(self, host: Host, departure: Departure) -> None:
        """Have Nomad move the host's work to other nodes, and wait until none is left or the
        departure's time is over."""

    def stay(self, host: Host, departure: Departure) -> None:
        """Undo the drain of a removal that did not finish: the host accepts work again."""

    def end_orphan(self, agent: Agent) -> None:
        """End an agent that runs without the supervisor's knowledge."""

    def start(self, agent: Agent) -> None: ...

    def stop(self, agent: Agent) -> None:
        """End the agent and wait until it has ended. Its tasks go on."""

    def restart(self, agent: Agent) -> None:
        """End a running agent and start it again. Its tasks go on."""

    def reload(self, agent: Agent) -> None:
        """Have a running agent read its files again."""

    def state(self, agent: Agent) -> State | None:
        """None if the supervisor does not know the agent."""

    def log_end(self, agent: Agent) -> list[str]:
        """The last LOG_LINES lines that the agent wrote."""
