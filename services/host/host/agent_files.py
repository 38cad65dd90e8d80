"""The files of the agents on this host, and whether an agent must restart to read them."""

from __future__ import annotations

import dataclasses
import glob
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from program.certificate import of_agent
from program.errors import InputError
from program.folders import Folders, holds, to_json, write_private

from host.document import RELOAD, Agent, Host, Prerequisites, read_agent, read_prerequisites
from host.supervisor import Supervisor

RECORD = "program.json"
PREREQUISITES = "starts-after.json"


def agents_on_disk(folders: Folders) -> list[Agent]:
    """Every agent applied here, in starting order."""
    agents = []
    for record in _existing(folders, f"*/*/{RECORD}"):
        with suppress(FileNotFoundError):  # its host is being removed
            agents.append(read_agent(json.loads(record.read_text())))
    return sorted(agents, key=lambda agent: (agent.stage, agent.host))


def folders_of_agents(folders: Folders) -> list[Path]:
    """The folders of all agents, including those being removed."""
    return _existing(folders, "*/*")


def write_agent(
    supervisor: Supervisor, host: Host, agent: Agent, secrets: Mapping[str, Any]
) -> None:
    """Write an agent's files, and before the first change, the mark that it must restart.

    Its record is written last, so an agent with a record has all its files. A change of the
    prerequisites alone does not restart it.
    """
    folder = supervisor.folders.agent(agent.host, agent.name)
    owner = supervisor.make_folder(agent)
    if agent.name not in secrets.get("agents", {}):
        raise InputError(f"standard input has no secrets for the agent {agent.name}")
    files = {
        folder / "config.json": to_json(host.configurations[agent.name]),
        secrets_file(supervisor.folders, agent.host, agent.name): to_json(
            secrets["agents"][agent.name]
        ),
    }
    _forget_stale_keyring(folder, secrets["agents"][agent.name])
    certificate = {
        of_agent(folder) / name: content for name, content in secrets.get("certificate", {}).items()
    }
    if (prerequisites := host.prerequisites.get(agent.name)) is not None:
        write_private(folder / PREREQUISITES, to_json(dataclasses.asdict(prerequisites)))
    if not (supervisor.is_current(agent) and _hold(files)):
        write_private(restart_needed(supervisor.folders, agent), "")
    elif not _hold(certificate):
        reloads = host.renewals.get(agent.name) == RELOAD
        mark = reload_needed if reloads else restart_needed
        write_private(mark(supervisor.folders, agent), "")
    for path, content in {**files, **certificate}.items():
        write_private(path, content, owner)
    write_private(folder / RECORD, to_json(dataclasses.asdict(agent)))


def _forget_stale_keyring(folder: Path, secrets: Mapping[str, Any]) -> None:
    """Agents keep the gossip keys that they have learned, and then ignore the one in their files:
    one that was away while the key was replaced would never find the others again."""
    kept = folder / "secrets.json"
    if not kept.exists() or _gossip_key(json.loads(kept.read_text())) == _gossip_key(secrets):
        return
    for keyring in (folder / "data").glob("ser*/*.keyring"):
        keyring.unlink()


def _gossip_key(secrets: Mapping[str, Any]) -> str | None:
    """The gossip key in the files of a Consul agent or a Nomad server."""
    found: str | None = secrets.get("encrypt") or secrets.get("server", {}).get("encrypt")
    return found


def prerequisites_of(folders: Folders, agent: Agent) -> Prerequisites | None:
    """The prerequisites of the agent's start; None if its document has none."""
    path = folders.agent(agent.host, agent.name) / PREREQUISITES
    return read_prerequisites(json.loads(path.read_text())) if path.exists() else None


def secrets_file(folders: Folders, host: str, agent: str) -> Path:
    return folders.agent(host, agent) / "secrets.json"


def restart_needed(folders: Folders, agent: Agent) -> Path:
    """The mark that the agent may still run with its old files.

    It is on disk because a run may be killed, or find the disk full, between writing the files and
    restarting the agent; the next run would find equal files.
    """
    return folders.agent(agent.host, agent.name) / "restart-needed"


def reload_needed(folders: Folders, agent: Agent) -> Path:
    """The mark that the running agent may still show its old certificate."""
    return folders.agent(agent.host, agent.name) / "reload-needed"


def leader_awaited(folders: Folders, agent: Agent) -> Path:
    """The mark that a server was restarted and has not been seen with a leader since."""
    return folders.agent(agent.host, agent.name) / "leader-awaited"


def forget_record(folders: Folders, agent: Agent) -> None:
    (folders.agent(agent.host, agent.name) / RECORD).unlink(missing_ok=True)


def _hold(files: Mapping[Path, str]) -> bool:
    return all(holds(path, content) for path, content in files.items())


def _existing(folders: Folders, pattern: str) -> list[Path]:
    """Like Path.glob, which fails if a concurrent removal deletes a folder that it is about to
    read."""
    found = glob.glob(pattern, root_dir=folders.nodes)  # noqa: PTH207
    return [folders.nodes / path for path in found]
