"""A replica's tasks in Nomad: which one fails, how it ended, and the end of its log."""

from __future__ import annotations

from program.document import JsonObject
from program.http_json import Api, ApiError

LINES = 10
BYTES = 4096  # of the log's end


def restarts(allocation: JsonObject) -> int:
    states = (allocation.get("TaskStates") or {}).values()
    return max((int(state["Restarts"]) for state in states), default=0)


def newest_event(allocation: JsonObject) -> str:
    states = allocation.get("TaskStates") or {}
    running = [f"{name} {state['State']}" for name, state in sorted(states.items())]
    events = [event for state in states.values() for event in state.get("Events") or []]
    newest = max(events, key=lambda event: event["Time"], default=None)
    said = newest["DisplayMessage"] if newest else allocation["ClientStatus"]
    return f"{allocation['NodeName']}: {', '.join(running) or 'pending'} ({said})"


def failing_task(allocation: JsonObject) -> str:
    """The task that was restarted most often, which may be a task that runs before the server."""
    states: dict[str, JsonObject] = allocation["TaskStates"]
    return max(states, key=lambda name: int(states[name]["Restarts"]))


def last_end(allocation: JsonObject, task: str) -> str:
    """How the task last ended, in Nomad's words."""
    state = allocation["TaskStates"][task]
    ends = [event for event in state.get("Events") or [] if event["Type"] == "Terminated"]
    newest = max(ends, key=lambda event: event["Time"], default=None)
    return str(newest["DisplayMessage"] if newest else state["State"])


def last_words(allocation: JsonObject, task: str, nomad: Api) -> str:
    """The end of the task's stderr; empty if it wrote nothing or its node does not answer."""
    path = f"/v1/client/fs/logs/{allocation['ID']}?task={task}&type=stderr&plain=true"
    try:
        text = nomad.text(f"{path}&origin=end&offset={BYTES}")
    except ApiError:
        return ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-LINES:])
