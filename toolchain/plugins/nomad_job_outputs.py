"""The outputs of a `nomad.Job`: the API's fields under the SDK's names."""

from collections.abc import Mapping
from typing import Any

from toolchain.plugins.wire import Properties

# The SDK's name of each field, and its value if the API leaves the field out.
_JOB: Properties = {
    **dict.fromkeys(("region", "status", "statusDescription", "type"), ""),
    **dict.fromkeys(("createIndex", "priority", "version"), 0),
    **dict.fromkeys(("allAtOnce", "stable", "stop"), False),
    "datacenters": [],
}
_GROUP: Properties = {"name": "", "count": 1, "meta": {}}
_TASK: Properties = {"name": "", "driver": "", "meta": {}}
_VOLUME: Properties = {"name": "", "type": "", "readOnly": False, "source": ""}
_VOLUME_MOUNT: Properties = {"volume": "", "destination": "", "readOnly": False}
_PERIODIC: Properties = {"enabled": False, "spec": "", "specType": "", "prohibitOverlap": False}
_UPDATE: Properties = {"autoRevert": False, "canary": 0, "healthCheck": "", "maxParallel": 0}


def namespace(job: Mapping[str, Any]) -> str:
    """The job's namespace, "default" if left out."""
    return str(job.get("Namespace") or "default")


def computed(job: Mapping[str, Any]) -> Properties:
    """The computed outputs of a job as `GET /v1/job/<id>` returns it."""
    return {
        **_shown(job, _JOB),
        "allocationIds": [],
        "constraints": [_constraint(item) for item in job.get("Constraints") or []],
        **dict.fromkeys(("deploymentId", "deploymentStatus")),  # null: nobody has waited for it
        "modifyIndex": str(job.get("JobModifyIndex", 0)),
        "name": job["ID"],
        "namespace": namespace(job),
        "parentId": job.get("ParentID") or "",
        "periodicConfigs": _periodic(job.get("Periodic")),
        "submitTime": str(job.get("SubmitTime") or ""),
        "taskGroups": task_groups(job),
        "updateStrategies": _update(job.get("Update")),
    }


def task_groups(job: Mapping[str, Any]) -> list[Properties]:
    """The job's groups, their tasks and their volumes."""
    return [
        {
            **_shown(group, _GROUP),
            "tasks": [_task(task) for task in group.get("Tasks") or []],
            "updateStrategies": _update(group.get("Update")),
            "volumes": [
                _shown(volume, _VOLUME)
                for _, volume in sorted((group.get("Volumes") or {}).items())
            ]
            or None,
        }
        for group in job.get("TaskGroups") or []
    ]


def _shown(source: Mapping[str, Any], fields: Properties) -> Properties:
    """`fields` of `source`, in which "readOnly" is called "ReadOnly"; null counts as left out."""
    found = {name: source.get(name[0].upper() + name[1:]) for name in fields}
    return {name: fields[name] if value is None else value for name, value in found.items()}


def _task(task: Mapping[str, Any]) -> Properties:
    mounts = [_shown(mount, _VOLUME_MOUNT) for mount in task.get("VolumeMounts") or []]
    return {**_shown(task, _TASK), "volumeMounts": mounts}


def _constraint(constraint: Mapping[str, Any]) -> Properties:
    fields = {"ltarget": "LTarget", "operand": "Operand", "rtarget": "RTarget"}
    return {name: constraint.get(field) or "" for name, field in fields.items()}


def _periodic(periodic: Mapping[str, Any] | None) -> list[Properties]:
    if not periodic:
        return []
    return [{**_shown(periodic, _PERIODIC), "timezone": periodic.get("TimeZone") or ""}]


def _update(update: Mapping[str, Any] | None) -> list[Properties]:
    if not update:
        return []
    fields = {"healthyDeadline", "minHealthyTime", "stagger"}
    durations = _shown(update, dict.fromkeys(fields, 0))
    written = {name: _duration(nanoseconds) for name, nanoseconds in durations.items()}
    return [{**_shown(update, _UPDATE), **written}]


def _duration(nanoseconds: int) -> str:
    """A duration in Go's format: "1h0m0s", "5m0s", "1.5s", "300ms"."""
    if 0 < nanoseconds < 1_000_000_000:
        return f"{nanoseconds / 1e6:g}ms"
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h" if hours else ""
    text += f"{minutes}m" if hours or minutes else ""
    return f"{text}{rest / 1e9:g}s"


# Values that Nomad decides, unknown before the job is registered.
COMPUTED = tuple(computed({"ID": ""}))
