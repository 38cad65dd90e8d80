"""The files of the agents on this host: what makes an agent known, and whether it has read them."""

from __future__ import annotations

import dataclasses
import glob
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from document import Agent, read_agent
from errors import InputError
from folders import Folders, holds, to_json, write_private
from supervision import Supervisor

RECORD = "program.json"


def agents_on_disk(folders: Folders) -> list[Agent]:
    """Every agent applied here, in the order of starting."""
    agents = []
    for record in _existing(folders, f"*/*/{RECORD}"):
        with suppress(FileNotFoundError):  # its host is being removed
            agents.append(read_agent(json.loads(record.read_text())))
    return sorted(agents, key=lambda agent: (agent.stage, agent.host))


def folders_of_agents(folders: Folders) -> list[Path]:
    """Those of agents that are being removed, too."""
    return _existing(folders, "*/*")


def write_agent(
    supervisor: Supervisor, agent: Agent, configuration: Any, secrets: Mapping[str, Any]
) -> None:
    """Write an agent's files; before the first that changes, the mark that it has to start anew.

    Its record comes last: an agent that is known has all its files.
    """
    folder = supervisor.folders.agent(agent.host, agent.name)
    if agent.name not in secrets.get("agents", {}):
        raise InputError(f"standard input holds no secrets of the agent {agent.name}")
    files = {
        folder / "config.json": to_json(configuration),
        folder / "secrets.json": to_json(secrets["agents"][agent.name]),
    }
    if not (supervisor.has_section(agent) and all(holds(*file) for file in files.items())):
        write_private(restart_needed(supervisor.folders, agent), "")
    for path, content in files.items():
        write_private(path, content)
    write_private(folder / RECORD, to_json(dataclasses.asdict(agent)))


def restart_needed(folders: Folders, agent: Agent) -> Path:
    """A mark: the agent may run with files of before.

    On disk, because the next run finds equal files after one that was killed, or that found the
    disk full, between writing them and ending the agent.
    """
    return folders.agent(agent.host, agent.name) / "restart-needed"


def forget_record(folders: Folders, agent: Agent) -> None:
    (folders.agent(agent.host, agent.name) / RECORD).unlink(missing_ok=True)


def _existing(folders: Folders, pattern: str) -> list[Path]:
    """Path.glob fails when a removal beside it deletes a folder that it is about to read."""
    found = glob.glob(pattern, root_dir=folders.nodes)  # noqa: PTH207
    return [folders.nodes / path for path in found]
