"""The log of an agent of a host."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from cli.errors import WRONG_INPUT, CliError
from cli.hosts.over_ssh import OverSsh, known_way
from cli.hosts.roster import Member
from slipway.plan.platform import SshPlan

# The agents of each role, and beside a Nomad client what watches its tasks' log collectors.
UNITS = {
    "server": ("consul", "nomad", "workload-keys"),
    "node": ("consul", "nomad", "log-collectors"),
}


def show_journal(
    over_ssh: OverSsh,
    ssh: SshPlan,
    environment: str,
    host: Member,
    unit: str,
    *,
    lines: int | None,
    follow: bool,
) -> None:
    """Prints the agent's log from the journal of a host with systemd."""
    if unit not in UNITS[host.role]:
        raise _no_unit(host.name, unit, UNITS[host.role])
    command = ["journalctl", "--quiet", "--no-pager", f"--unit=slipway-{environment}-{unit}"]
    command += ["--no-tail" if lines is None else f"--lines={lines}"]
    command += ["--follow"] if follow else []
    over_ssh.show(host.name, known_way(ssh, host.name), shlex.join(command))


def show_file(logs: Path, host: Member, unit: str, *, lines: int | None, follow: bool) -> None:
    """Prints the agent's log from the file that this machine's supervisor writes."""
    path = logs / f"{host.name}-{unit}.log"
    if not path.is_file():
        known = (
            each.stem.removeprefix(f"{host.name}-") for each in logs.glob(f"{host.name}-*.log")
        )
        raise _no_unit(host.name, unit, tuple(sorted(known)))
    command = ["tail", f"--lines={'+1' if lines is None else lines}"]
    command += ["--follow=name"] if follow else []
    try:
        subprocess.run([*command, str(path)], check=True)
    except KeyboardInterrupt:  # it has ended as well
        return


def _no_unit(host: str, unit: str, known: tuple[str, ...]) -> CliError:
    if not known:
        return CliError(
            f"nothing of {host} has run on this machine yet",
            fix="slipway up starts its agents",
        )
    return CliError(
        f'{host} has no unit "{unit}"', fix=f"use one of: {', '.join(known)}", exit_code=WRONG_INPUT
    )
