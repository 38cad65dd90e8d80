"""Commands of systemd, and the state of a unit as a supervisor tells it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from program.errors import HostError

from host.supervisor import State

UNITS = Path("/etc/systemd/system")
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "MainPID",
    "NRestarts",
    "ExecMainStartTimestampMonotonic",
    "ExecMainExitTimestampMonotonic",
)
STATES = {
    "active": "RUNNING",
    "reloading": "RUNNING",
    "activating": "STARTING",
    "deactivating": "STOPPING",
    "inactive": "STOPPED",
    "failed": "STOPPED",
}
# An agent that ended that often, and at once the last time, needs help.
GIVEN_UP_AFTER = 5
AT_ONCE_S = 2.0


def systemctl(*arguments: str) -> str:
    return succeed("systemctl", *arguments)


def succeed(*command: str) -> str:
    """What the command prints. Raises HostError with its error."""
    done = attempt(*command)
    if done.returncode:
        raise HostError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def attempt(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def state_of(unit: str) -> State | None:
    shown = systemctl("show", f"--property={','.join(PROPERTIES)}", unit)
    found = dict(line.partition("=")[::2] for line in shown.splitlines())
    if found["LoadState"] != "loaded":
        return None
    if found["SubState"] == "auto-restart":
        return State("FATAL" if _given_up(found) else "BACKOFF")
    name = STATES.get(found["ActiveState"], "UNKNOWN")
    if name != "RUNNING":
        return State(name)
    return State(name, int(found["MainPID"]), int(time.monotonic() - _started_s(found)))


def _given_up(found: dict[str, str]) -> bool:
    ended_s = int(found["ExecMainExitTimestampMonotonic"]) / 1e6
    ran_s = ended_s - _started_s(found)
    return int(found["NRestarts"]) >= GIVEN_UP_AFTER and ran_s < AT_ONCE_S


def _started_s(found: dict[str, str]) -> float:
    return int(found["ExecMainStartTimestampMonotonic"]) / 1e6
