"""Small Nomad jobs for the contract tests."""

import json
from typing import Any

SECOND_NS = 1_000_000_000


def sleeper(
    job_id: str,
    *,
    deployed: bool = False,
    command: str = "/bin/sleep",
    arguments: tuple[str, ...] = ("600",),
    cpu_mhz: int = 20,
) -> str:
    """A JSON jobspec: one group "main" with one raw_exec task and room to be scaled.

    Args:
        deployed: whether Nomad makes a deployment of it and judges its health.
    """
    update = {
        "MaxParallel": 1 if deployed else 0,
        "HealthCheck": "task_states",
        "MinHealthyTime": SECOND_NS // 10,
        "HealthyDeadline": 3 * SECOND_NS,
        "ProgressDeadline": 4 * SECOND_NS,
    }
    task: dict[str, Any] = {
        "Name": "sleep",
        "Driver": "raw_exec",
        "KillTimeout": SECOND_NS,
        "Config": {"command": command, "args": list(arguments)},
        "Resources": {"CPU": cpu_mhz, "MemoryMB": 20},
    }
    group = {
        "Name": "main",
        "Count": 1,
        "Tasks": [task],
        "Update": update,
        "Scaling": {"Enabled": True, "Min": 1, "Max": 5},
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
        "EphemeralDisk": {"SizeMB": 110},
    }
    job = {"ID": job_id, "Name": job_id, "Type": "service", "TaskGroups": [group]}
    return json.dumps({"Job": job}, sort_keys=True, indent=1)
