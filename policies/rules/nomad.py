"""Jobs that keep serving through crashes, changes and scaling."""

from __future__ import annotations

from collections.abc import Iterator

from rules.facts import (
    flag_or_none,
    mapping,
    mappings,
    number,
    number_or_none,
    text_or_none,
)
from rules.jobs import NANOSECONDS_PER_S, groups, is_reachable, is_service, job_of, services, tasks
from rules.rule import ALWAYS, NOMAD_JOB, PLATFORM, PRODUCTION, SHARED, Resource, rule

# Nomad's default: the time between a task's kill signal and its end.
DEFAULT_KILL_TIMEOUT_S = 5


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="Without a check a dead service stays in Consul and gets traffic.",
    fix="Give the group a service with a check that the process itself answers.",
)
def no_health_check(job: Resource) -> Iterator[str]:
    """Every group that others can reach has a health check"""
    document = job_of(job.props)
    if not is_service(document):
        return
    for name, group in groups(document):
        if is_reachable(group) and not any(
            mappings(service, "Checks") for service in services(group)
        ):
            yield f"group {name} has no health check"


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="The scheduler packs nodes by what tasks request; a task without requests takes from its"
    " neighbours.",
    fix="Set `Resources` with CPU (or Cores) and MemoryMB.",
)
def no_limits(job: Resource) -> Iterator[str]:
    """Every task requests processor and memory"""
    for task in tasks(job_of(job.props)):
        resources = mapping(task.document, "Resources")
        if not (number_or_none(resources, "CPU") or number_or_none(resources, "Cores")):
            yield f"task {task} requests no processor share"
        if not number_or_none(resources, "MemoryMB"):
            yield f"task {task} requests no memory"


@rule(
    NOMAD_JOB,
    severity=ALWAYS,
    why="Nomad refuses to scale a job while a deployment runs; models load for many minutes, so"
    " every change would stop the autoscaler for that long.",
    fix="Set `Update: {MaxParallel: 0}`: a changed model becomes a new job beside the old one.",
)
def deployment_blocks_scaling(job: Resource) -> Iterator[str]:
    """A scaled job has no deployments"""
    document = job_of(job.props)
    for name, group in groups(document):
        if not mapping(group, "Scaling"):
            continue
        update = {**mapping(document, "Update"), **mapping(group, "Update")}
        # Nomad's own default is 1.
        if number_or_none(update, "MaxParallel") != 0:
            yield f"group {name} is scaled, but its changes are deployments"


@rule(
    NOMAD_JOB,
    severity=ALWAYS,
    why="Without it, every deployment resets the count to the file's: at the busiest hour a fleet"
    " shrinks to its initial size.",
    fix="Set `preserve_counts=True` on the `nomad.Job`.",
)
def count_not_preserved(job: Resource) -> Iterator[str]:
    """A deployment keeps the autoscaler's count"""
    scaled = any(mapping(group, "Scaling") for _, group in groups(job_of(job.props)))
    if scaled and flag_or_none(job.props, "preserveCounts") is not True:
        yield "is scaled, but does not preserve its count"


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="A count outside its envelope is corrected at once: replicas start only to be stopped.",
    fix="Start with a count between `Min` and `Max`.",
)
def count_outside_envelope(job: Resource) -> Iterator[str]:
    """A group starts inside its scaling envelope"""
    for name, group in groups(job_of(job.props)):
        if not mapping(group, "Scaling"):
            continue
        count = number(group, "Count")
        least, most = number(group, "Scaling.Min"), number(group, "Scaling.Max")
        if not least <= count <= most:
            yield f"group {name} starts with {count:.0f}, outside {least:.0f} to {most:.0f}"


@rule(
    NOMAD_JOB,
    severity=ALWAYS,
    why="A task that gets SIGTERM while the gateway still sends requests loses them (measured: 40 %"
    " of streams; none when the endpoint goes first).",
    fix="Set the group's `ShutdownDelay` to a few seconds and each task's `KillTimeout` above its"
    " longest request.",
)
def stops_before_drain(job: Resource) -> Iterator[str]:
    """A replica leaves the gateway before it is told to stop"""
    for name, group in groups(job_of(job.props)):
        if not (mapping(group, "Scaling") and mappings(group, "Services")):
            continue
        if not number_or_none(group, "ShutdownDelay"):
            yield f"group {name} has no shutdown delay"
        timeouts_ns = [number_or_none(task, "KillTimeout") for task in mappings(group, "Tasks")]
        if max((timeout or 0 for timeout in timeouts_ns), default=0) <= (
            DEFAULT_KILL_TIMEOUT_S * NANOSECONDS_PER_S
        ):
            yield f"group {name} is killed after {DEFAULT_KILL_TIMEOUT_S} s or less"


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="A privileged container is root on its node, and root reads every model's traffic.",
    fix="Name the devices and capabilities the task needs.",
)
def privileged_task(job: Resource) -> Iterator[str]:
    """No container is privileged"""
    for task in tasks(job_of(job.props)):
        if flag_or_none(task.document, "Config.privileged"):
            yield f"task {task} is privileged"


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="With the restart mode `fail`, a task that used up its attempts stays dead.",
    fix="Use the restart mode `delay`, or let the group be rescheduled without limit.",
)
def gives_up_restarting(job: Resource) -> Iterator[str]:
    """A service that crashes comes back by itself"""
    document = job_of(job.props)
    if not is_service(document):
        return
    for name, group in groups(document):
        fails = text_or_none(group, "RestartPolicy.Mode") == "fail"
        if fails and flag_or_none(group, "ReschedulePolicy.Unlimited") is not True:
            yield f"group {name} gives up after its restarts"


@rule(
    PLATFORM,
    severity=PRODUCTION,
    why="With one server, its node's failure stops scheduling, service discovery and every change.",
    fix="Set `slipway:servers: 3`.",
)
def single_server(platform: Resource) -> Iterator[str]:
    """A production control plane has three servers"""
    servers = number(platform.props, "servers")
    if servers < 3:
        yield f"has {servers:.0f} server" + ("s" if servers > 1 else "")
