"""Why a replica does not stay up: the task that ends, how it ended, and its last words."""

from __future__ import annotations

from typing import Any

from http_json import Api, ApiError

LINES = 10
BYTES = 4096  # of the log's end


def failing_task(allocation: dict[str, Any]) -> str:
    """The one that was started again most often: the step before the server may be the one."""
    states: dict[str, dict[str, Any]] = allocation["TaskStates"]
    return max(states, key=lambda name: int(states[name]["Restarts"]))


def last_end(allocation: dict[str, Any], task: str) -> str:
    """How the task ended the last time, in Nomad's words."""
    state = allocation["TaskStates"][task]
    ends = [event for event in state.get("Events") or [] if event["Type"] == "Terminated"]
    newest = max(ends, key=lambda event: event["Time"], default=None)
    return str(newest["DisplayMessage"] if newest else state["State"])


def last_words(allocation: dict[str, Any], task: str, nomad: Api) -> str:
    """The end of the task's stderr; empty where it wrote none or its node does not answer."""
    path = f"/v1/client/fs/logs/{allocation['ID']}?task={task}&type=stderr&plain=true"
    try:
        text = nomad.text(f"{path}&origin=end&offset={BYTES}")
    except ApiError:
        return ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-LINES:])
