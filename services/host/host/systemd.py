"""systemd: one unit per agent, started at boot, each agent as a user of its own.

Standard library only. Agents log to the journal. Their files belong to their user; the folders
above can be passed through by others, but not listed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from program.document import JsonObject
from program.errors import HostError, InputError
from program.folders import Folders, Owner, holds, to_json, write_private, write_public

from host import accounts, self_drain
from host.agent_files import prerequisites_of
from host.document import Agent, Departure, Host, Units, read_units
from host.firewall import load, port_of_ssh, section_file, unload
from host.firewall_rules import Firewall
from host.lock import lock
from host.supervisor import LOG_LINES, RECORD, State
from host.systemctl import UNITS, attempt, state_of, succeed, systemctl
from host.unit_files import (
    FIREWALL,
    ROOT,
    WATCHER,
    agent_unit,
    code,
    firewall_unit,
    temporary_files,
    unit_name,
    watcher_unit,
)

BOOTED = Path("/run/systemd/system")  # there if systemd is the first process: sd_booted(3)
TEMPORARY_FILES = Path("/etc/tmpfiles.d")
ENVIRONMENT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
PASS_THROUGH, PASS_THROUGH_FOR_GROUP = 0o711, 0o710


class Systemd:
    """The environment's units. `named` are those of the agents in a document, or in the record."""

    def __init__(self, folders: Folders, named: Units) -> None:
        self.folders = folders
        self.environment = folders.run.name
        self.units = dict(named.agents)
        self._record = folders.supervisor / RECORD
        self._temporary_files = TEMPORARY_FILES / f"slipway-{self.environment}.conf"

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._refuse()
        _make_way_to(self.folders.nodes)
        with lock(self.folders):
            yield

    def ensure_running(self) -> bool:
        accounts.make(self._remember())
        write_public(self._temporary_files, temporary_files(self.folders))
        succeed("systemd-tmpfiles", "--create", str(self._temporary_files))
        if self._link_code():
            for name in (WATCHER, FIREWALL):
                if self._unit_file(name).exists():
                    systemctl("try-restart", unit_name(self.folders, name))
        return False

    def guard(self, firewall: Firewall | None) -> None:
        if firewall is None:
            self._open()
            return
        section = to_json(dataclasses.asdict(firewall))
        if not holds(section_file(self.folders), section):
            self._remember()  # `remove` finds the rules even if nothing else of this run succeeds
            load(self.environment, firewall, port_of_ssh())
            write_private(section_file(self.folders), section)

    def _open(self) -> None:
        """Ends the firewall, if there is one."""
        file = self._unit_file(FIREWALL)
        if file.exists():
            systemctl("stop", file.name)
            file.unlink()
            systemctl("daemon-reload")
        if section_file(self.folders).exists():
            unload(self.environment)
            section_file(self.folders).unlink()

    def answers(self) -> bool:
        return BOOTED.is_dir()

    def shut_down(self) -> None:
        if self._unit_file(WATCHER).exists():
            systemctl("stop", unit_name(self.folders, WATCHER))

    def remove(self) -> None:
        self.shut_down()
        self._open()
        for file in (self._unit_file(WATCHER), self._temporary_files):
            file.unlink(missing_ok=True)
        systemctl("daemon-reload")
        accounts.delete(self._read()["users"])
        run, scratch = self.folders.run, self.folders.scratch
        for folder in (self.folders.supervisor, scratch):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (run, run.parent, scratch.parent):
            with suppress(OSError):  # it holds another environment, or what is not ours
                folder.rmdir()

    def make_folder(self, agent: Agent) -> Owner | None:
        folder = self.folders.agent(agent.host, agent.name)
        _make_way_to(folder.parent)
        self._refuse_another_host(agent.host)
        user = self.units[agent.name].user
        if user == ROOT:
            return None
        owner = accounts.owner(user)
        for each in (folder, folder / "certificate"):
            _make_folder(each, PASS_THROUGH_FOR_GROUP, Owner(0, owner.gid))
        _make_folder(folder / "data", 0o700, owner)
        return owner

    def is_current(self, agent: Agent) -> bool:
        return holds(self._unit_file(agent.name), self._unit(agent))

    def load(self, agent: Agent) -> None:
        changed = write_public(self._unit_file(agent.name), self._unit(agent))
        if self.units[agent.name].runs_tasks:
            watcher = watcher_unit(self.folders)
            changed = write_public(self._unit_file(WATCHER), watcher) or changed
            if self._guarded:
                firewall = firewall_unit(self.folders)
                changed = write_public(self._unit_file(FIREWALL), firewall) or changed
        if changed:
            systemctl("daemon-reload")
        systemctl("enable", "--quiet", "--no-reload", self._name(agent))

    def unload(self, agent: Agent) -> None:
        self.stop(agent)
        if self._unit_file(agent.name).exists():
            systemctl("disable", "--quiet", "--no-reload", self._name(agent))
            self._unit_file(agent.name).unlink()
            systemctl("daemon-reload")
        self._forget(agent)

    def drain(self, host: Host, departure: Departure) -> None:
        """By the Nomad client itself: there is no token of the operator on the host."""
        for agent in self._running_tasks(host):
            folder = self.folders.agent(agent.host, agent.name)
            self_drain.drain(self._name(agent), folder, host.name, departure.drain_timeout_s)

    def stay(self, host: Host, departure: Departure) -> None:
        for agent in self._running_tasks(host):
            folder = self.folders.agent(agent.host, agent.name)
            grace_s = departure.drain_timeout_s
            self_drain.forget_node(self._name(agent), folder, host.name, grace_s)

    def _running_tasks(self, host: Host) -> Iterator[Agent]:
        """The host's Nomad client, once its document was applied."""
        known = ((agent, self.units.get(agent.name)) for agent in host.agents)
        return (agent for agent, unit in known if unit is not None and unit.runs_tasks)

    def end_orphan(self, agent: Agent) -> None:
        """There is none: systemd finds its agents again after a crash of its own."""

    def start(self, agent: Agent) -> None:
        """A failed start is tried again by systemd; `state` tells."""
        attempt("systemctl", "start", self._name(agent))

    def stop(self, agent: Agent) -> None:
        if self.state(agent) is not None:
            systemctl("stop", self._name(agent))
            # Agents exit with 1 after SIGTERM, which is no failure to remember.
            attempt("systemctl", "reset-failed", self._name(agent))

    def restart(self, agent: Agent) -> None:
        systemctl("restart", "--no-block", self._name(agent))

    def reload(self, agent: Agent) -> None:
        systemctl("reload", self._name(agent))

    def state(self, agent: Agent) -> State | None:
        return state_of(self._name(agent))

    def log_end(self, agent: Agent) -> list[str]:
        unit = f"_SYSTEMD_UNIT={self._name(agent)}"  # not what systemd itself says of the unit
        lines = f"--lines={LOG_LINES}"
        return succeed("journalctl", "--quiet", "--output=cat", lines, unit).splitlines()

    def _name(self, agent: Agent) -> str:
        return unit_name(self.folders, agent.name)

    def _unit_file(self, agent: str) -> Path:
        return UNITS / unit_name(self.folders, agent)

    def _unit(self, agent: Agent) -> str:
        waits = prerequisites_of(self.folders, agent) is not None
        unit = self.units[agent.name]
        return agent_unit(agent, unit, self.folders, waits=waits, guarded=self._guarded)

    @property
    def _guarded(self) -> bool:
        return section_file(self.folders).exists()

    def _remember(self) -> list[str]:
        """Keep the units of all documents: `start` has no document. Returns the users that are
        deleted with the last agent, kept before they are made."""
        before = self._read()
        self.units = {**read_units(before).agents, **self.units}
        known = set(before["users"])
        users = sorted(known.union(accounts.not_found(unit.user for unit in self.units.values())))
        self._write(users)
        return users

    def _forget(self, agent: Agent) -> None:
        before = self._read()
        self.units = {**read_units(before).agents}
        self.units.pop(agent.name, None)
        self._write(before["users"])

    def _read(self) -> JsonObject:
        if not self._record.exists():
            return {"kind": "systemd", "agents": {}, "users": []}
        record: JsonObject = json.loads(self._record.read_text())
        if "kind" not in record:
            raise HostError(
                "this environment's agents run under supervisord, but its document now says "
                "systemd: run `slipway down` first"
            )
        return record

    def _write(self, users: list[str]) -> None:
        agents = {name: dataclasses.asdict(unit) for name, unit in self.units.items()}
        record = {"kind": "systemd", "agents": agents, "users": users}
        write_private(self._record, to_json(record))

    def _link_code(self) -> bool:
        """Whether the link to this code has changed."""
        link, here = code(self.folders), Path(__file__).resolve().parents[1]
        if link.is_symlink() and link.readlink() == here:
            return False
        new = link.with_name("code.new")
        new.unlink(missing_ok=True)
        new.symlink_to(here)
        new.replace(link)
        return True

    def _refuse(self) -> None:
        if not ENVIRONMENT.fullmatch(self.environment):
            raise InputError(
                f"SLIPWAY_RUN is {str(self.folders.run)!r}: its last part is in the names of "
                "units, use a-z, 0-9 and -"
            )
        if not self.answers() or os.geteuid():
            raise HostError("agents under systemd need a machine started by systemd, and root")

    def _refuse_another_host(self, host: str) -> None:
        """Units are named by agent, so a machine is one host of an environment."""
        others = [each.name for each in self.folders.nodes.iterdir() if each.name != host]
        if others:
            raise HostError(f"this machine is already {', '.join(others)}: it cannot be {host} too")


def _make_way_to(folder: Path) -> None:
    """Every missing folder down to this one, which others may pass through."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            _make_folder(each, PASS_THROUGH, Owner(0, 0))


def _make_folder(folder: Path, mode: int, owner: Owner) -> None:
    """Creates the folder, or gives it to the owner, with everything in it if it belonged to another
    user."""
    folder.mkdir(mode=mode, exist_ok=True)
    folder.chmod(mode)
    if folder.stat().st_uid != owner.uid:
        for path in folder.rglob("*"):
            os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
    os.chown(folder, owner.uid, owner.gid)
