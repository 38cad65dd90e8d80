"""Commands on hosts, by the programs of services/operator that speak SSH.

`way` is the part of their documents that says how a host is reached (components/hosts/delivery.py).
`agent` are the variables with which an ssh-agent is found (machine/ssh_agent.py).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cli.environment import Environment, inherited
from cli.errors import CliError
from components.hosts.delivery import key_scan, way_to
from slipway.plan.platform import SshHost, SshPlan

COMMAND_VERSION = 1
RUN, EXAMINE = ("on_host.py", "run"), ("deliver.py", "examine")
INTERRUPTED, UNREACHABLE = 130, 3  # exit codes of these programs
JsonObject = Mapping[str, Any]


class HostError(CliError):
    """A command failed on a host."""


class UnreachableError(HostError):
    """No command could be run on the host."""


def known_way(ssh: SshPlan, host: str) -> JsonObject:
    """The way to a host. CliError if its key, or that of the jump host, is not known."""
    if unknown := _unknown(ssh, [host]):
        raise _no_key(ssh, unknown)
    return way_to(ssh, host)


def must_know_a_way(ssh: SshPlan, hosts: Sequence[str]) -> None:
    """CliError if no public key of these hosts is known, or if that of the jump host is not."""
    each = [_unknown(ssh, [host]) for host in hosts]
    if all(each):
        raise _no_key(ssh, _unknown(ssh, hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSsh:
    environment: Environment
    agent: Mapping[str, str]

    def ask(self, host: str, way: JsonObject, command: str, *, within_s: float) -> str:
        """What a command on the host prints. HostError if it fails, or after `within_s`."""
        return self._answer(host, RUN, _command(host, way, command), within_s)

    def examine(self, delivery: JsonObject, *, within_s: float) -> JsonObject:
        """The report on a host that is to get `delivery` (schemas/host-report.schema.json)."""
        report: JsonObject = json.loads(self._answer(delivery["host"], EXAMINE, delivery, within_s))
        return report

    def save(
        self, host: str, way: JsonObject, command: str, file: Path, *, within_s: float
    ) -> None:
        """Writes what a command on the host prints into a file. HostError as for `ask`."""
        with file.open("wb") as output:
            self._run(host, RUN, _command(host, way, command), within_s, output)

    def show(self, host: str, way: JsonObject, command: str) -> None:
        """Prints what a command on the host prints, as it comes; Ctrl-C ends it."""
        with subprocess.Popen(
            self._arguments(*RUN),
            env=self._variables(_command(host, way, command)),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                _, said = process.communicate()
            except KeyboardInterrupt:
                process.send_signal(
                    signal.SIGINT
                )  # a terminal has sent it already, others have not
                process.wait()
                raise
        if process.returncode not in (0, INTERRUPTED):
            raise _failure(process.returncode, said)

    def _answer(
        self, host: str, program: tuple[str, str], document: JsonObject, within_s: float
    ) -> str:
        answer = self._run(host, program, document, within_s, subprocess.PIPE)
        return answer.decode(errors="replace")

    def _run(
        self,
        host: str,
        program: tuple[str, str],
        document: JsonObject,
        within_s: float,
        output: int | IO[bytes],
    ) -> bytes:
        try:
            done = subprocess.run(
                self._arguments(*program),
                env=self._variables(document),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(
                f"{host} has not answered within {within_s:.0f} s", fix=f"look at {host}'s console"
            ) from None
        if done.returncode:
            raise _failure(done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout or b""

    def _arguments(self, program: str, action: str) -> list[str]:
        # Standard library only, so this program's own interpreter will do.
        path = self.environment.checkout / "services" / "operator" / program
        return [sys.executable, "-B", str(path), action]

    def _variables(self, document: JsonObject) -> dict[str, str]:
        return {
            **inherited(),
            **self.environment.host_variables(self.environment.access),
            **self.agent,
            "SLIPWAY_DOCUMENT": json.dumps(document),
        }


def _unknown(ssh: SshPlan, hosts: Sequence[str]) -> list[SshHost]:
    """Those of the hosts, and of their jump host, whose public keys are not known."""
    places = [*(ssh.hosts[host] for host in hosts), *([ssh.jump] if ssh.jump else [])]
    return [place for place in places if not place.host_key]


def _no_key(ssh: SshPlan, unknown: Sequence[SshHost]) -> HostError:
    addresses = ", ".join(place.address for place in unknown)
    return HostError(
        f"{ssh.known_hosts} has no public key of {addresses}",
        fix=key_scan(unknown, ssh.known_hosts),
    )


def _command(host: str, way: JsonObject, command: str) -> JsonObject:
    """schemas/host-command.schema.json"""
    return {"schema_version": COMMAND_VERSION, "host": host, "ssh": way, "command": command}


def _failure(code: int, said: str) -> HostError:
    message, _, fix = said.strip().partition("\nfix: ")
    kind = UnreachableError if code == UNREACHABLE else HostError
    return kind(message, fix=fix)
