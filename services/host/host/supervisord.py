"""supervisord: one per environment, restarting agents that die and rotating their logs.

It listens on the environment's own address behind a generated password. It is started with a
cleaned environment, because all tasks inherit their variables from it.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import secrets
import shlex
import shutil
import subprocess
import sys
import xmlrpc.client
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from program.addresses import url
from program.errors import HostError
from program.folders import Folders, holds, make_private_folder, to_json, write_private
from program.waiting import wait_until

from host import departure as departures
from host.document import Agent, Departure, Endpoint, Host
from host.firewall_rules import Firewall
from host.lock import lock
from host.processes import Process, end_all, running
from host.supervisor import LOG_LINES, MARK, RECORD, State

PROGRAM = "supervisor.supervisord"
USER = "slipway"
LOG_BYTES = "10MB"
LOG_BACKUPS = 3
OPEN_FILES = 65536  # Envoy and the engines inherit it
START_TIMEOUT_S = 15
ORPHAN_GRACE_S = 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The operator's variables that tasks need: the user, and how to reach a package index.
INHERITED = ("HOME", "USER", "LOGNAME", "LANG", "TZ")
INHERITED_PREFIXES = ("PIP_", "UV_", "SSL_CERT_", "REQUESTS_CA_")
INHERITED_SUFFIXES = ("_PROXY", "_proxy")
LOG_COLLECTORS = "log-collectors"


class Supervisord:
    """The environment's supervisord, running or not. Agents are processes of this program's
    user."""

    def __init__(self, folders: Folders, endpoint: Endpoint) -> None:
        self.folders = folders
        self.endpoint = endpoint
        self.configuration = folders.supervisor / "supervisord.conf"
        self.programs = folders.supervisor / "conf.d"

    def locked(self) -> AbstractContextManager[None]:
        return lock(self.folders)

    def ensure_running(self) -> bool:
        self.folders.prepare()
        self._refuse_to_move()
        if self.answers():
            return False
        self._write_configuration()
        self._end_predecessor()
        # It daemonizes itself in its own session, so it outlives this program. It binds its address
        # first, so a failure to bind shows in the exit code.
        started = subprocess.run(
            [sys.executable, "-m", PROGRAM, "-c", str(self.configuration)],
            env=clean_environment(os.environ),
            cwd=self.folders.supervisor,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if started.returncode:
            said = (started.stderr or started.stdout).strip()
            raise HostError(
                f"supervisord did not start on {self.endpoint.address}:{self.endpoint.port}: {said}"
            )
        wait_until(
            "supervisord", lambda: None if self.answers() else "does not answer", START_TIMEOUT_S
        )
        return True

    def end_orphan(self, agent: Agent) -> None:
        """A killed supervisord leaves its agents behind, and a new one cannot adopt them.

        Each agent is ended just before its next start, so the others keep running meanwhile.
        """
        folder = self.folders.agent(agent.host, agent.name)
        end_all(lambda: [p for p in running() if is_agent(p, folder)], ORPHAN_GRACE_S)

    def guard(self, firewall: Firewall | None) -> None:
        """There is nothing to close: hosts of one machine talk over its loopback interface."""

    def answers(self) -> bool:
        try:
            return bool(self._rpc().supervisor.getIdentification() == str(self.folders.run))
        except (OSError, http.client.HTTPException, xmlrpc.client.Error):
            # Nothing listens, or a program that refuses our password, or it is shutting down.
            return False

    def shut_down(self) -> None:
        if self.answers():
            # A shutdown takes up to a second for every program that supervisord knows, running or
            # not; with no programs it ends at once.
            self._stop(LOG_COLLECTORS)
            self._rpc().supervisor.shutdown()
        self._end_predecessor()
        # Tasks are not touched: they are not agents, and Nomad finds them again.
        end_all(lambda: [p for p in running() if is_agent(p, self.folders.nodes)], ORPHAN_GRACE_S)

    def remove(self) -> None:
        self.shut_down()
        shutil.rmtree(self.folders.supervisor, ignore_errors=True)  # another removal may be faster

    def make_folder(self, agent: Agent) -> None:
        make_private_folder(self.folders.agent(agent.host, agent.name))

    def is_current(self, agent: Agent) -> bool:
        return holds(self._program_file(agent), program_section(agent, self.folders))

    def load(self, agent: Agent) -> None:
        write_private(self._program_file(agent), program_section(agent, self.folders))
        self._rpc().supervisor.reloadConfig()
        if self.state(agent) is not None:
            self.stop(agent)
            self._rpc().supervisor.removeProcessGroup(agent.program)
        self._rpc().supervisor.addProcessGroup(agent.program)

    def unload(self, agent: Agent) -> None:
        self._program_file(agent).unlink(missing_ok=True)
        if self.answers() and self.state(agent) is not None:
            self.stop(agent)
            self._rpc().supervisor.removeProcessGroup(agent.program)

    def drain(self, host: Host, departure: Departure) -> None:
        """By the operator's token, which is on the same machine."""
        departures.drain(self.folders, host.name, departure)

    def stay(self, host: Host, departure: Departure) -> None:
        departures.stay(self.folders, host.name, departure)

    def start(self, agent: Agent) -> None:
        """Start an agent that is stopped or that supervisord has given up on."""
        try:
            self._rpc().supervisor.startProcess(agent.program, False)
        except xmlrpc.client.Fault as fault:
            if "ALREADY_STARTED" not in fault.faultString:
                raise HostError(f"{agent.program} does not start: {fault.faultString}") from None

    def stop(self, agent: Agent) -> None:
        self._stop(agent.program)

    def restart(self, agent: Agent) -> None:
        """In one atomic step: supervisord starts it again by itself."""
        self._signal(agent, "TERM")

    def reload(self, agent: Agent) -> None:
        self._signal(agent, "HUP")

    def _signal(self, agent: Agent, signal: str) -> None:
        try:
            self._rpc().supervisor.signalProcess(agent.program, signal)
        except xmlrpc.client.Fault as fault:
            raise HostError(f"{agent.program} gets no {signal}: {fault.faultString}") from None

    def state(self, agent: Agent) -> State | None:
        try:
            record: Any = self._rpc().supervisor.getProcessInfo(agent.program)
        except xmlrpc.client.Fault:
            return None
        if not record["pid"]:
            return State(record["statename"])
        return State(record["statename"], record["pid"], record["now"] - record["start"])

    def log_end(self, agent: Agent) -> list[str]:
        path = log_file(self.folders, agent)
        return path.read_text(errors="replace").splitlines()[-LOG_LINES:] if path.exists() else []

    def _stop(self, program: str) -> None:
        try:
            self._rpc().supervisor.stopProcess(program, True)
        except xmlrpc.client.Fault as fault:
            # BAD_NAME: a killed removal had already taken it from supervisord.
            if not fault.faultString.startswith(("NOT_RUNNING", "BAD_NAME")):
                raise HostError(f"{program} does not stop: {fault.faultString}") from None

    def _end_predecessor(self) -> None:
        """End an earlier supervisord that does not answer; its agents keep running."""
        # Compares whole arguments: another process may be reading that file, and another checkout's
        # path may end with this one's.
        predecessor = {PROGRAM, str(self.configuration)}
        end_all(lambda: [p for p in running() if predecessor <= {*p.argv}], ORPHAN_GRACE_S)

    def _rpc(self) -> Any:
        authority = f"{self.endpoint.address}:{self.endpoint.port}"
        # supervisord's own server speaks no TLS.
        address = url("http", f"{USER}:{self._password()}@{authority}")
        return xmlrpc.client.ServerProxy(f"{address}/RPC2")

    def _password(self) -> str:
        path = self.folders.supervisor / "password"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32))
        return path.read_text()

    def _program_file(self, agent: Agent) -> Path:
        return self.programs / f"{agent.program}.conf"

    def _refuse_to_move(self) -> None:
        record = self.folders.supervisor / RECORD
        before = json.loads(record.read_text()) if record.exists() else self.endpoint.__dict__
        if before != self.endpoint.__dict__:
            raise HostError(
                f"this environment's supervisor is {before.get('address', 'systemd')}, but the "
                f"configuration now says {self.endpoint.address}: run `slipway down` first"
            )

    def _write_configuration(self) -> None:
        write_private(self.folders.supervisor / RECORD, to_json(self.endpoint.__dict__))
        write_private(
            self.configuration,
            supervisor_configuration(self.folders, self.endpoint, self._password()),
        )


def is_agent(process: Process, below: Path) -> bool:
    """Whether a process is an agent with its files below a folder; tasks and helpers are not."""
    options = (f"-config={below}/", f"-config-file={below}/")
    return any(argument.startswith(options) for argument in process.argv)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that agents and so all tasks inherit: no passphrases or cloud credentials."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in INHERITED
        or name.startswith(INHERITED_PREFIXES)
        or name.endswith(INHERITED_SUFFIXES)
    }
    return {**kept, "PATH": PATH, "LANG": environment.get("LANG", "C.UTF-8")}


def supervisor_configuration(folders: Folders, endpoint: Endpoint, password: str) -> str:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = OPEN_FILES if hard_limit == resource.RLIM_INFINITY else min(OPEN_FILES, hard_limit)
    return _ini(
        ("supervisord", _supervisord_options(folders, open_files)),
        (
            "inet_http_server",
            {
                "port": f"{endpoint.address}:{endpoint.port}",
                "username": USER,
                "password": password,
            },
        ),
        (
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": ("supervisor.rpcinterface:make_main_rpcinterface")},
        ),
        (f"eventlistener:{LOG_COLLECTORS}", _log_collectors_options(folders)),
        ("include", {"files": "conf.d/*.conf"}),
    )


def program_section(agent: Agent, folders: Folders) -> str:
    folder = folders.agent(agent.host, agent.name)
    # Paths of Unix sockets (Nomad's plugins, engines) must not exceed 107 characters.
    environment = {MARK: str(folder), "TMPDIR": str(folders.scratch)}
    options = {
        "command": shlex.join(agent.command),
        "directory": str(folder),
        "environment": _environment(environment),
        "autostart": "false",  # by stages: a Nomad client started before Consul never sees it
        "autorestart": "true",
        "startsecs": "1",
        "startretries": "8",  # with growing pauses: half a minute
        "stopsignal": "TERM",
        "stopwaitsecs": str(agent.stop_timeout_s),
        "umask": "022",
        "redirect_stderr": "true",
        "stdout_logfile": str(log_file(folders, agent)),
        "stdout_logfile_maxbytes": LOG_BYTES,
        "stdout_logfile_backups": str(LOG_BACKUPS),
    }
    return _ini((f"program:{agent.program}", options))


def log_file(folders: Folders, agent: Agent) -> Path:
    return folders.logs / f"{agent.program}.log"


def _supervisord_options(folders: Folders, open_files: int) -> dict[str, str]:
    return {
        "identifier": str(folders.run),
        "logfile": str(folders.logs / "supervisord.log"),
        "logfile_maxbytes": LOG_BYTES,
        "logfile_backups": str(LOG_BACKUPS),
        "pidfile": str(folders.supervisor / "supervisord.pid"),
        "childlogdir": str(folders.logs),
        "umask": "077",
        "minfds": str(open_files),
    }


def _log_collectors_options(folders: Folders) -> dict[str, str]:
    """The only program that starts by itself: it watches the agents and does not depend on them."""
    script = Path(__file__).parents[1] / "log_collectors.py"
    environment = {
        "SLIPWAY_RUN": str(folders.run),
        "SLIPWAY_CACHE": str(folders.cache),
        "SLIPWAY_SCRATCH": str(folders.scratch),
    }
    return {
        "command": shlex.join([sys.executable, "-B", str(script)]),
        "environment": _environment(environment),
        "events": "TICK_5",
        "autorestart": "true",
        "startretries": "8",
        "stdout_logfile": "NONE",  # its protocol with supervisord
        "stderr_logfile": str(folders.logs / f"{LOG_COLLECTORS}.log"),
        "stderr_logfile_maxbytes": LOG_BYTES,
        "stderr_logfile_backups": str(LOG_BACKUPS),
    }


def _environment(variables: Mapping[str, str]) -> str:
    """Only quoted, because supervisord takes the text between the quotes literally."""
    return ",".join(f'{name}="{value}"' for name, value in sorted(variables.items()))


def _ini(*sections: tuple[str, Mapping[str, str]]) -> str:
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in options.items()), ""])
        for name, options in sections
    )
