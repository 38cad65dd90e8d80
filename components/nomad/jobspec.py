"""A small typed subset of Nomad's job API, rendered as API JSON.

Not HCL: JSON is unambiguous, fully known at preview, and can be diffed by structure. Field names
follow Nomad's API documentation; durations are seconds here and nanoseconds in the document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slipway.plan.certificate_names import NOMAD_REGION

NANOSECONDS_PER_S = 1_000_000_000

# Consul-template's default delimiters `{{ }}` occur in Lua and in alert texts; these do not.
LEFT_DELIMITER = "<%"
RIGHT_DELIMITER = "%>"

# When a task's executor is killed, Nomad starts the task again without ending the old process,
# which keeps its ports. setpriv (util-linux) makes the kernel end the task with its parent, and
# replaces itself with the command, which keeps the process id.
ENDS_WITH_ITS_EXECUTOR = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRestart:
    """When a failing check restarts its task. Without it a check only takes the task out of
    rotation."""

    after_failures: int
    grace_s: float  # after each start of the task

    def render(self) -> dict[str, Any]:
        return {"Limit": self.after_failures, "Grace": _ns(self.grace_s)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCheck:
    """A health check by GET. `port` is one of the group's port labels. Over https Consul's agent
    shows its own certificate and verifies the service's."""

    path: str
    port: str
    interval_s: float = 2
    timeout_s: float = 5  # with 1 s, checks flap when both cores are busy
    failures_before_critical: int = 2
    protocol: str = "http"  # or "https"
    certificate_verified: bool = True  # of the service, over https
    restart: CheckRestart | None = None
    server_name: str = ""  # in the service's certificate, over https; "" for its address

    def render(self) -> dict[str, Any]:
        protocol = {"Protocol": self.protocol} if self.protocol != "http" else {}
        verified = self.certificate_verified or self.protocol == "http"
        return _present(
            {
                **protocol,
                **({} if verified else {"TLSSkipVerify": True}),
                **({"TLSServerName": self.server_name} if self.server_name else {}),
                "Name": f"http-{self.port}",
                "Type": "http",
                "Path": self.path,
                "PortLabel": self.port,
                "Interval": _ns(self.interval_s),
                "Timeout": _ns(self.timeout_s),
                "FailuresBeforeCritical": self.failures_before_critical,
                "CheckRestart": self.restart.render() if self.restart else {},
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCheck:
    """A health check by a command in the task's environment: exit code 0 passes, 2 is critical."""

    name: str
    task: str
    command: str
    args: tuple[str, ...]
    interval_s: float
    timeout_s: float
    restart: CheckRestart | None = None

    def render(self) -> dict[str, Any]:
        return _present(
            {
                "Name": self.name,
                "Type": "script",
                "TaskName": self.task,
                "Command": self.command,
                "Args": list(self.args),
                "Interval": _ns(self.interval_s),
                "Timeout": _ns(self.timeout_s),
                "CheckRestart": self.restart.render() if self.restart else {},
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A registration in Consul under the node's own address."""

    name: str
    port: str = ""  # a label of the group's ports
    checks: tuple[HttpCheck | ScriptCheck, ...] = ()
    tags: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=dict)

    def render(self) -> dict[str, Any]:
        return _present(
            {
                "Name": self.name,
                "Provider": "consul",
                "PortLabel": self.port,
                # All nodes share the interface lo, so Nomad would register 127.0.0.1.
                "Address": "${meta.address}",
                "Tags": list(self.tags),
                "Meta": dict(self.meta),
                "Checks": [check.render() for check in self.checks],
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file written into the task's directory before it starts. `templates` are the parts that
    Nomad fills in."""

    path: str  # "local/prometheus.yml"
    content: str
    templates: tuple[str, ...] = ()
    change_mode: str = "noop"  # what a change of the templates does to the task: "restart"

    def __post_init__(self) -> None:
        literal = self.content
        for template in self.templates:
            literal = literal.replace(template, "")
        if LEFT_DELIMITER in literal:
            raise ValueError(
                f"{self.path} contains {LEFT_DELIMITER!r}, which Nomad would parse as a template"
            )

    def render(self) -> dict[str, Any]:
        return {
            "DestPath": self.path,
            "EmbeddedTmpl": self.content,
            "LeftDelim": LEFT_DELIMITER,
            "RightDelim": RIGHT_DELIMITER,
            "ChangeMode": self.change_mode,
            "Perms": "0600",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Devices of one node, found there by a device plugin of Nomad."""

    name: str  # "nvidia/gpu": the vendor and the type that the plugin reports
    count: int

    def render(self) -> dict[str, Any]:
        return {"Name": self.name, "Count": self.count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """How a task that ended is restarted on its node.

    After `attempts`, the mode `delay` parks a task for the rest of the interval. As many attempts
    as fit are allowed, so every crash is followed by a restart after `delay_s`.
    """

    attempts: int = 600
    interval_s: float = 600
    delay_s: float = 1
    mode: str = "delay"  # or "fail": beyond the attempts the allocation fails, and is placed again

    def render(self) -> dict[str, Any]:
        return {
            "Attempts": self.attempts,
            "Interval": _ns(self.interval_s),
            "Delay": _ns(self.delay_s),
            "Mode": self.mode,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Where a task runs under the docker driver: the host's network, a root that cannot be written
    to, no capabilities, and as much locked memory as drivers want.

    It sees folders of the host, at the same path: those that it reads and those that it writes to.
    Docker makes those that do not exist.
    """

    image: str
    read: tuple[str, ...]
    written: tuple[str, ...]
    shared_memory_bytes: int
    memory_limit_mb: int  # at least the memory that the task asks for

    def render(self, command: str, args: tuple[str, ...]) -> dict[str, Any]:
        return {
            "image": self.image,
            "entrypoint": [command],
            "args": list(args),
            "network_mode": "host",
            # Docker's own init passes on signals and reaps orphans; what the command started ends
            # with it.
            "init": True,
            "readonly_rootfs": True,
            "cap_drop": ["all"],
            "security_opt": ["no-new-privileges"],
            "shm_size": self.shared_memory_bytes,
            "ulimit": [{"memlock": "-1"}],
            "volumes": [
                *(f"{folder}:{folder}:ro" for folder in self.read),
                *(f"{folder}:{folder}" for folder in self.written),
            ],
            "mount": [{"type": "tmpfs", "target": "/tmp"}],  # noqa: S108
            "memory_hard_limit": self.memory_limit_mb,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One process: under raw_exec or, with a `container`, under the docker driver."""

    name: str
    command: str
    args: tuple[str, ...]
    cpu_mhz: int
    memory_mb: int
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    runs_before_the_others: bool = False
    runs_beside_the_others: bool = False  # starts before them, and ends after them
    runs_after_the_others: bool = False  # starts once they run, and may end before them
    services: tuple[Service, ...] = ()  # registered for as long as it runs
    shutdown_delay_s: float = 0  # until the signal to end
    kill_timeout_s: float = 10
    consul_identity: bool = False  # a Consul token by workload identity
    nomad_identity: bool = False  # a Nomad token by workload identity, in NOMAD_TOKEN
    devices: Devices | None = None
    restart: Restart | None = None  # where it differs from the group's
    container: Container | None = None

    def render(self) -> dict[str, Any]:
        task: dict[str, Any] = {
            "Name": self.name,
            **self._driver(),
            "Env": dict(self.env),
            "Resources": self._resources(),
            "Templates": [file.render() for file in self.files],
            "KillSignal": "SIGTERM",  # raw_exec's own default is SIGINT
            "KillTimeout": _ns(self.kill_timeout_s),
            "LogConfig": {"MaxFiles": 3, "MaxFileSizeMB": 10},
        }
        if self.shutdown_delay_s:
            task["ShutdownDelay"] = _ns(self.shutdown_delay_s)
        if self.runs_before_the_others:
            task["Lifecycle"] = {"Hook": "prestart", "Sidecar": False}
        if self.runs_beside_the_others:
            task["Lifecycle"] = {"Hook": "prestart", "Sidecar": True}
        if self.runs_after_the_others:
            task["Lifecycle"] = {"Hook": "poststart", "Sidecar": False}
        if self.services:
            task["Services"] = [service.render() for service in self.services]
        if self.consul_identity:
            task["Consul"] = {}
        if self.restart:
            task["RestartPolicy"] = self.restart.render()
        if self.nomad_identity:
            task["Identity"] = {"Env": True, "File": True}
        return _present(task, keep=("Consul",))

    def _driver(self) -> dict[str, Any]:
        if self.container is not None:
            config = self.container.render(self.command, self.args)
            return {"Driver": "docker", "Config": config, "User": "0"}
        words = [*ENDS_WITH_ITS_EXECUTOR[1:], self.command, *self.args]
        config = {"command": ENDS_WITH_ITS_EXECUTOR[0], "args": words}
        return {"Driver": "raw_exec", "Config": config}

    def _resources(self) -> dict[str, Any]:
        devices = [self.devices.render()] if self.devices else []
        return _present({"CPU": self.cpu_mhz, "MemoryMB": self.memory_mb, "Devices": devices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """How a node that drains hands over a group's allocations: one by one, the next once the
    replacement of the last has passed its checks or has had its time. By `task_states` it is once
    the tasks run."""

    healthy_deadline_s: float
    min_healthy_s: float = 10  # Nomad's default
    health_check: Literal["checks", "task_states"] = "checks"

    def render(self) -> dict[str, Any]:
        return {
            "MaxParallel": 1,
            "HealthCheck": self.health_check,
            "MinHealthyTime": _ns(self.min_healthy_s),
            "HealthyDeadline": _ns(self.healthy_deadline_s),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """A group's minimum and maximum, and the policy that the Nomad Autoscaler reads."""

    min_count: int
    max_count: int
    policy: Mapping[str, Any]

    def render(self) -> dict[str, Any]:
        return {
            "Type": "horizontal",
            "Enabled": True,
            "Min": self.min_count,
            "Max": self.max_count,
            "Policy": dict(self.policy),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tasks placed together. `ports` maps a label to a fixed port, or to None for a dynamic one."""

    name: str
    count: int
    ports: Mapping[str, int | None]
    tasks: tuple[Task, ...]
    services: tuple[Service, ...] = ()
    shutdown_delay_s: float = 0
    restart: Restart = field(default_factory=Restart)
    scaling: Scaling | None = None
    migration: Migration | None = None  # without one, a replacement has 5 minutes
    on_distinct_hosts: bool = False  # no two of its allocations on one
    node_metadata: Mapping[str, str] = field(default_factory=dict)  # that its nodes must have
    disk_mb: int = 150

    def render(self) -> dict[str, Any]:
        group: dict[str, Any] = {
            "Name": self.name,
            "Count": self.count,
            "Networks": [_network(self.ports)] if self.ports else [],
            "Services": [service.render() for service in self.services],
            "Tasks": [task.render() for task in self.tasks],
            "RestartPolicy": self.restart.render(),
            "ReschedulePolicy": {
                "DelayFunction": "constant",
                "Delay": _ns(5),
                "Unlimited": True,
            },
            "EphemeralDisk": {"SizeMB": self.disk_mb, "Sticky": True},
        }
        distinct = {"Operand": "distinct_hosts", "RTarget": "true"}
        group["Constraints"] = [
            *([distinct] if self.on_distinct_hosts else []),
            *(_with(key, value) for key, value in sorted(self.node_metadata.items())),
        ]
        if self.shutdown_delay_s:
            group["ShutdownDelay"] = _ns(self.shutdown_delay_s)
        if self.scaling:
            group["Scaling"] = self.scaling.render()
        if self.migration:
            group["Migrate"] = self.migration.render()
        return _present(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A service job without deployments; with a `schedule`, a batch job that runs at these times;
    `on_every_node`, a system job.

    `max_parallel = 0`, because Nomad refuses scaling requests while a deployment is in progress,
    and a changed model replaces its replicas with those of another job anyway
    (docs/architecture.md).
    """

    id: str
    datacenter: str
    node_pool: str
    group: Group
    address: str = ""  # the only node where it may run; without one, any node of the pool
    meta: Mapping[str, str] = field(default_factory=dict)
    priority: int = 50
    progress_deadline_s: float = 600  # Nomad requires more than every task's kill timeout
    schedule: str = ""  # in cron's form, in UTC; one run at a time
    on_every_node: bool = False  # of its pool, also on those that join later

    def render(self) -> dict[str, Any]:
        return {
            "Job": _present(
                {
                    "ID": self.id,
                    "Name": self.id,
                    "Type": self._type(),
                    "Namespace": "default",
                    "Region": NOMAD_REGION,
                    "Datacenters": [self.datacenter],
                    "NodePool": self.node_pool,
                    "Priority": self.priority,
                    "Constraints": [_with("address", self.address)] if self.address else [],
                    "Meta": dict(self.meta),
                    **(self._periodic() if self.schedule else self._update()),
                    "TaskGroups": [self._group()],
                },
            )
        }

    def _type(self) -> str:
        if self.on_every_node:
            return "system"
        return "batch" if self.schedule else "service"

    def _group(self) -> dict[str, Any]:
        group = self.group.render()
        if self.schedule:  # a run that failed on its node is left to the next one
            group["ReschedulePolicy"] = {"Attempts": 0, "Unlimited": False}
        if self.on_every_node:  # there is no other place
            del group["ReschedulePolicy"]
        return group

    def _update(self) -> dict[str, Any]:
        deadline = _ns(self.progress_deadline_s)
        return {"Update": {"MaxParallel": 0, "ProgressDeadline": deadline}}

    def _periodic(self) -> dict[str, Any]:
        return {
            "Periodic": {
                "Enabled": True,
                "SpecType": "cron",
                "Specs": [self.schedule],
                "ProhibitOverlap": True,
                "TimeZone": "UTC",
            }
        }


def _with(key: str, value: str) -> dict[str, str]:
    return {"LTarget": f"${{meta.{key}}}", "Operand": "=", "RTarget": value}


def to_json(job: Job) -> str:
    """The document given to `nomad.Job(jobspec=…, json=True)`: stable and compact.

    Tools parse it before they show it, and indentation would add a third to its size.
    """
    return json.dumps(job.render(), sort_keys=True, separators=(",", ":"))


def _network(ports: Mapping[str, int | None]) -> dict[str, Any]:
    return _present(
        {
            "Mode": "host",
            "ReservedPorts": [
                {"Label": label, "Value": port} for label, port in sorted(ports.items()) if port
            ],
            "DynamicPorts": [
                {"Label": label} for label, port in sorted(ports.items()) if port is None
            ],
        }
    )


def _ns(seconds: float) -> int:
    return round(seconds * NANOSECONDS_PER_S)


def _present(values: dict[str, Any], keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """Removes empty lists and maps: Nomad returns them as null, which would show as a permanent
    change."""
    return {
        key: value for key, value in values.items() if key in keep or value not in ([], {}, None)
    }
