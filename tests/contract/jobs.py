"""Small Nomad jobs for the contract tests."""

import json
from typing import Any

SECOND_NS = 1_000_000_000


def sleeper(job_id: str, *, cpu_mhz: int = 20) -> str:
    """A JSON jobspec: one group "main" with one raw_exec task and room to be scaled."""
    update = {
        "MaxParallel": 0,  # no deployments
        "HealthCheck": "task_states",
        "MinHealthyTime": SECOND_NS // 10,
        "HealthyDeadline": 3 * SECOND_NS,
        "ProgressDeadline": 4 * SECOND_NS,
    }
    task: dict[str, Any] = {
        "Name": "sleep",
        "Driver": "raw_exec",
        "KillTimeout": SECOND_NS,
        "Config": {"command": "/bin/sleep", "args": ["600"]},
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
