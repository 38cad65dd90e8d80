"""What a `nomad.Job` shows of a job: the API's fields under the SDK's names."""

from collections.abc import Mapping
from typing import Any

from toolchain.plugins.wire import Properties

# Everything that Nomad decides, unknown before the job is registered.
COMPUTED = (
    "allAtOnce",
    "allocationIds",
    "constraints",
    "createIndex",
    "datacenters",
    "deploymentId",
    "deploymentStatus",
    "modifyIndex",
    "name",
    "namespace",
    "parentId",
    "periodicConfigs",
    "priority",
    "region",
    "stable",
    "status",
    "statusDescription",
    "stop",
    "submitTime",
    "taskGroups",
    "type",
    "updateStrategies",
    "version",
)


def namespace(job: Mapping[str, Any]) -> str:
    """The job's namespace; leaving it out means "default"."""
    return str(job.get("Namespace") or "default")


def computed(job: Mapping[str, Any]) -> Properties:
    """The computed outputs of a job as `GET /v1/job/<id>` returns it."""
    return {
        "allAtOnce": bool(job.get("AllAtOnce")),
        "allocationIds": [],
        "constraints": [_constraint(item) for item in job.get("Constraints") or []],
        "createIndex": job.get("CreateIndex", 0),
        "datacenters": job.get("Datacenters") or [],
        "modifyIndex": str(job.get("JobModifyIndex", 0)),
        "name": job["ID"],
        "namespace": namespace(job),
        "parentId": job.get("ParentID") or "",
        "periodicConfigs": _periodic(job.get("Periodic")),
        "priority": job.get("Priority", 0),
        "region": job.get("Region") or "",
        "stable": bool(job.get("Stable")),
        "status": job.get("Status") or "",
        "statusDescription": job.get("StatusDescription") or "",
        "stop": bool(job.get("Stop")),
        "submitTime": str(job.get("SubmitTime") or ""),
        "taskGroups": task_groups(job),
        "type": job.get("Type") or "",
        "updateStrategies": _update(job.get("Update")),
        "version": job.get("Version", 0),
    }


def task_groups(job: Mapping[str, Any]) -> list[Properties]:
    """The job's groups, their tasks and their volumes."""
    return [
        {
            "name": group.get("Name") or "",
            "count": 1 if group.get("Count") is None else group["Count"],
            "meta": group.get("Meta") or {},
            "tasks": [_task(task) for task in group.get("Tasks") or []],
            "updateStrategies": _update(group.get("Update")),
            "volumes": [
                _volume(volume) for _, volume in sorted((group.get("Volumes") or {}).items())
            ],
        }
        for group in job.get("TaskGroups") or []
    ]


def _task(task: Mapping[str, Any]) -> Properties:
    return {
        "name": task.get("Name") or "",
        "driver": task.get("Driver") or "",
        "meta": task.get("Meta") or {},
        "volumeMounts": [
            {
                "volume": mount.get("Volume") or "",
                "destination": mount.get("Destination") or "",
                "readOnly": bool(mount.get("ReadOnly")),
            }
            for mount in task.get("VolumeMounts") or []
        ],
    }


def _volume(volume: Mapping[str, Any]) -> Properties:
    return {
        "name": volume.get("Name") or "",
        "type": volume.get("Type") or "",
        "readOnly": bool(volume.get("ReadOnly")),
        "source": volume.get("Source") or "",
    }


def _constraint(constraint: Mapping[str, Any]) -> Properties:
    fields = {"ltarget": "LTarget", "operand": "Operand", "rtarget": "RTarget"}
    return {name: constraint.get(field) or "" for name, field in fields.items()}


def _periodic(periodic: Mapping[str, Any] | None) -> list[Properties]:
    if not periodic:
        return []
    return [
        {
            "enabled": bool(periodic.get("Enabled")),
            "spec": periodic.get("Spec") or "",
            "specType": periodic.get("SpecType") or "",
            "prohibitOverlap": bool(periodic.get("ProhibitOverlap")),
            "timezone": periodic.get("TimeZone") or "",
        }
    ]


def _update(update: Mapping[str, Any] | None) -> list[Properties]:
    if not update:
        return []
    return [
        {
            "autoRevert": bool(update.get("AutoRevert")),
            "canary": update.get("Canary") or 0,
            "healthCheck": update.get("HealthCheck") or "",
            "healthyDeadline": _duration(update.get("HealthyDeadline")),
            "maxParallel": update.get("MaxParallel") or 0,
            "minHealthyTime": _duration(update.get("MinHealthyTime")),
            "stagger": _duration(update.get("Stagger")),
        }
    ]


def _duration(nanoseconds: int | None) -> str:
    """Nanoseconds as seconds, "300s"."""
    return f"{(nanoseconds or 0) / 1e9:g}s"
