"""A command's lease of an environment's forwards, which stay open while any command has one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from cli.console import say
from cli.environment import Environment, inherited
from cli.errors import CliError
from cli.machine.ssh_agent import SOCKET as AGENT
from cli.progress import telling
from cli.reach.document import (
    CLOSED,
    FORBIDDEN,
    REFUSED,
    SHARED,
    Forwarding,
    forwarding_of,
    line,
)
from cli.reach.forwards import variables_of
from cli.reach.tunnels import PROGRAM as PROGRAM_OF_TUNNELS
from slipway.plan.platform import PlatformPlan

PROGRAM = "cli.reach.keeper"
END_S = 10.0


@contextmanager
def reaching(
    environment: Environment,
    plan: PlatformPlan,
    agent: Mapping[str, str],
    leaving: Sequence[str] = (),
) -> Iterator[Mapping[str, str]]:
    """The variables with which programs of this machine find the parts of the environment.

    Meanwhile it can be reached at the addresses of plan.operator, through a host that lives; says
    so if there is none. `agent` are the variables of an ssh-agent; `leaving` are addresses of hosts
    that the plan no longer has. CliError if an address is taken on this machine.
    """
    if plan.ssh is None:
        yield {}
        return
    wanted = forwarding_of(plan, plan.ssh, leaving)
    if wanted.tunnels is not None and shutil.which(PROGRAM_OF_TUNNELS) is None:
        raise CliError(
            f"the AWS command line ({PROGRAM_OF_TUNNELS}, version 2), by which the hosts are"
            " reached, is not installed",
            fix="install it; or, from a machine inside the hosts' network, remove slipway:ssh.jump",
        )
    with held(environment, wanted, agent) if wanted.hosts else nullcontext():
        # Without hosts, Pulumi's program says which keys are missing.
        yield variables_of(plan, leaving)


@contextmanager
def held(environment: Environment, wanted: Forwarding, agent: Mapping[str, str]) -> Iterator[Lease]:
    """A lease whose first state has been said."""
    users = {name: value for name, value in inherited().items() if not name.startswith("PULUMI_")}
    lease = _taken(environment, wanted, {**users, **agent})
    try:
        with telling(lambda: f"waiting for {', '.join(wanted.hosts)}"):
            state = lease.next_state()
        if state is not None and state["state"] == CLOSED:
            say_closed(state, environment.name)
        yield lease
    finally:
        lease.end()


def say_closed(state: Mapping[str, Any], environment: str) -> None:
    for host, reason in state["reasons"].items():
        say(f"{host} cannot be reached over SSH: {reason}", style="yellow")
    say(f'nothing of "{environment}" can be reached; it is tried again', style="yellow")


def say_forbidden(state: Mapping[str, Any]) -> None:
    say(
        f"the sshd of {state['host']} refuses to forward: {state['reason']}; set"
        " AllowTcpForwarding yes in its sshd_config; PermitOpen, if it is set, must list what"
        " runs on all hosts",
        style="yellow",
    )


@dataclass(slots=True)
class Lease:
    connection: socket.socket
    _lines: IO[bytes] = field(init=False)
    _keeper: psutil.Process | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lines = self.connection.makefile("rb")

    def joins(self, wanted: Forwarding, agent: str) -> bool:
        """Whether the keeper has heard the hello; not if it is about to end. CliError if it
        forwards something else, or cannot."""
        try:
            self.connection.sendall(line(digest=wanted.digest, agent=agent))
            state = self.next_state()
        except OSError:
            return False
        if state is None:
            return False
        with suppress(psutil.NoSuchProcess):
            self._keeper = psutil.Process(state["pid"]) if state["pid"] else None
        if state["state"] == REFUSED:
            self.end()
            raise CliError(state["message"], fix=state["fix"])
        return True

    def next_state(self) -> Mapping[str, Any] | None:
        """What the keeper reports next; None when it has ended."""
        text = self._lines.readline()
        return json.loads(text) if text else None

    def follow(self, environment: str) -> None:
        """Prints every change of state. CliError if the keeper ends, which it does only if it is
        killed."""
        while state := self.next_state():
            if state["state"] == CLOSED:
                say_closed(state, environment)
            else:
                say(f'"{environment}" is reached through {state["host"]}')
        raise CliError(
            "the process that forwards has ended", fix=f"run slipway reach -s {environment} again"
        )

    def end(self) -> None:
        """Ends the lease; returns when the forwards that no other command needs are closed."""
        self.connection.settimeout(END_S)
        shared = False
        with suppress(OSError):  # it has ended before, or takes its time
            self.connection.shutdown(socket.SHUT_WR)
            while state := self.next_state():
                if state["state"] == FORBIDDEN:
                    say_forbidden(state)
                shared = state["state"] == SHARED
        self._lines.close()
        self.connection.close()
        if self._keeper is not None and not shared:
            with suppress(psutil.TimeoutExpired):
                self._keeper.wait(END_S)


def _taken(environment: Environment, wanted: Forwarding, variables: Mapping[str, str]) -> Lease:
    """A lease from the keeper that runs, else from a new one."""
    environment.make_scratch()
    door, agent = environment.scratch / "reach", variables.get(AGENT, "")
    with _alone(environment):
        lease = _of_running(door)
        if lease is not None and lease.joins(wanted, agent):
            return lease
        lease = _of_new(environment, door, wanted, variables)
        if not lease.joins(wanted, agent):
            raise CliError(
                "the process that forwards has ended at once",
                fix=f"read {_log(environment)}, then run the same command again",
            )
        return lease


@contextmanager
def _alone(environment: Environment) -> Iterator[None]:
    """One command at a time looks for a keeper, and starts one."""
    environment.make_home()
    folder = environment.home / "locks"
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / f"{environment.name}.reach", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _of_running(door: Path) -> Lease | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(door))
    except OSError:
        connection.close()
        return None
    return Lease(connection)


def _of_new(
    environment: Environment, door: Path, wanted: Forwarding, variables: Mapping[str, str]
) -> Lease:
    own, its = socket.socketpair()
    environment.pulumi_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with its, _log(environment).open("wb") as output:
        keeper = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", PROGRAM),
                *(str(door), str(its.fileno()), str(environment.access / "operator")),
            ],
            env={**variables, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[its.fileno()],
            start_new_session=True,  # Ctrl-C is for the command, which may still need the forwards
        )
    assert keeper.stdin is not None  # noqa: S101
    with keeper.stdin as given:
        given.write(wanted.to_json().encode())
    return Lease(own)


def _log(environment: Environment) -> Path:
    return environment.pulumi_home / f"{environment.name}.reach.log"
