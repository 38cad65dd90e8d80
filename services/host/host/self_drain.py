"""A Nomad client that drains itself: hosts have no token of the operator.

After the signal INT a client has the servers move its tasks to other nodes, by the identity of its
own node, and ends when none is left. A reboot sends TERM, on which it just ends.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from program.errors import HostError
from program.folders import write_private, write_public
from program.waiting import say, wait_until

from host.systemctl import attempt, state_of, systemctl
from host.tasks import finish, reap, tasks_of

DROP_INS = Path("/run/systemd/system")
LEAVE_MARGIN_S = 15  # between the drain's deadline and the client's end
KILLED_S = 60  # after that
REPORT_S = 3  # in which a client without tasks tells the servers how they ended


def drain(unit: str, folder: Path, host: str, timeout_s: int) -> None:
    """Have the client of this unit drain and end. Tasks that found no other node in `timeout_s` are
    left to the caller, after Nomad has told them to end."""
    if state_of(unit) is None:
        return
    write_private(_mark(folder), "")
    _ask_to_leave(unit, timeout_s + LEAVE_MARGIN_S + KILLED_S)
    systemctl("stop", "--no-block", unit)
    try:
        patience_s = timeout_s + LEAVE_MARGIN_S
        wait_until(f"{host} drains", lambda: _still_running(unit, folder), patience_s)
        wait_until(f"{host} leaves", lambda: _still_there(unit), REPORT_S)
    except HostError as error:
        say(f"{host}: {error}")
    end(unit)


def end(unit: str) -> None:
    """End a client that may be draining. Its tasks go on."""
    # A second signal ends a drain; TERM ends a client that has not begun one.
    attempt("systemctl", "kill", "--kill-who=main", "--signal=SIGTERM", unit)
    _take_back(unit)
    attempt("systemctl", "stop", unit)
    attempt("systemctl", "reset-failed", unit)


def forget_node(unit: str, folder: Path, host: str, grace_s: int) -> None:
    """If the client was told to drain, it becomes a new node: Nomad gives no more work to one that
    has drained itself, until an operator allows it."""
    if not _mark(folder).exists():
        return
    end(unit)
    finish(folder, grace_s)
    reap(folder)
    shutil.rmtree(folder / "data", ignore_errors=True)
    _mark(folder).unlink()
    say(f"{host}: its removal is undone, it joins as a new node")


def _mark(folder: Path) -> Path:
    """The mark of a drain, from its beginning until it is undone; it outlasts a reboot."""
    return folder / "drains"


def _ask_to_leave(unit: str, killed_after_s: int) -> None:
    drop_in = _drop_in(unit)
    drop_in.parent.mkdir(exist_ok=True)
    write_public(drop_in, f"[Service]\nKillSignal=SIGINT\nTimeoutStopSec={killed_after_s}\n")
    systemctl("daemon-reload")


def _take_back(unit: str) -> None:
    if _drop_in(unit).exists():
        shutil.rmtree(_drop_in(unit).parent)
        systemctl("daemon-reload")


def _drop_in(unit: str) -> Path:
    return DROP_INS / f"{unit}.d" / "leaving.conf"


def _still_running(unit: str, folder: Path) -> str | None:
    if _still_there(unit) is None:
        return None
    # Without the server's answer the client waits for the whole time, even if it has no task.
    jobs = {job for each in tasks_of(folder) if (job := each.variable("NOMAD_JOB_NAME"))}
    return f"tasks of {', '.join(sorted(jobs))} run" if jobs else None


def _still_there(unit: str) -> str | None:
    state = state_of(unit)
    return None if state is None or state.ended else f"the Nomad client is {state.name}"
