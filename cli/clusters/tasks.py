"""The tasks of an allocation, and the one whose log is most useful."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NEVER = "0001-01-01"  # Go's zero time


def task_names(allocation: Mapping[str, Any]) -> list[str]:
    """The tasks of an allocation, in the order of its job."""
    return [str(task["Name"]) for task in _tasks(allocation)]


def telling_task(allocation: Mapping[str, Any]) -> str:
    """The failed task, else the running one, else the main one, which serves."""
    states = _states(allocation)
    main_first = sorted(_tasks(allocation), key=lambda task: bool(task.get("Lifecycle")))
    names = [str(task["Name"]) for task in main_first]
    for is_the_one in (_failed, _runs):
        if found := [name for name in names if is_the_one(states.get(name) or {})]:
            return found[0]
    return names[0]


def has_started(allocation: Mapping[str, Any], task: str) -> bool:
    """Nomad has no log of a task that has not started."""
    started = (_states(allocation).get(task) or {}).get("StartedAt") or _NEVER
    return not started.startswith(_NEVER)


def state_of(allocation: Mapping[str, Any], task: str) -> str:
    """For people: "running", "pending (Building Task Directory)"."""
    state = _states(allocation).get(task) or {}
    events = state.get("Events") or []
    newest = max(events, key=lambda event: int(event["Time"]), default=None)
    told = newest["DisplayMessage"] if newest and state["State"] != "running" else ""
    return f"{state.get('State', 'pending')} ({told})" if told else state.get("State", "pending")


def fails(allocation: Mapping[str, Any]) -> bool:
    return any(_failed(state) for state in _states(allocation).values())


def _failed(state: Mapping[str, Any]) -> bool:
    """Whether it ended by itself, even if it is started again."""
    if not state or state["State"] == "running":
        return False
    ends = [event for event in state.get("Events") or [] if event["Type"] == "Terminated"]
    newest = max(ends, key=lambda event: int(event["Time"]), default=None)
    code = (newest.get("Details") or {}).get("exit_code", "0") if newest else "0"
    return bool(state["Failed"]) or code != "0"


def _runs(state: Mapping[str, Any]) -> bool:
    return state.get("State") == "running"


def _states(allocation: Mapping[str, Any]) -> Mapping[str, Any]:
    states: Mapping[str, Any] = allocation.get("TaskStates") or {}
    return states


def _tasks(allocation: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups = {group["Name"]: group["Tasks"] for group in allocation["Job"]["TaskGroups"]}
    tasks: list[dict[str, Any]] = groups[allocation["TaskGroup"]]
    return tasks
