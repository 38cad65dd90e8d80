"""A replica over several nodes as Nomad runs it: a group of allocations, one on each node.

Nomad numbers a job's allocations, and from the number follow an allocation's group and its rank in
it (services/program/group/place.py). Nomad itself places and ends single allocations: their
launchers begin and end together.
"""

from __future__ import annotations

import dataclasses
import json

from components.fabric import metadata
from components.fabric.jobs import CHECK_CPU_MHZ, CHECK_MEMORY_MB
from components.nomad.jobspec import (
    LEFT_DELIMITER,
    RIGHT_DELIMITER,
    File,
    Group,
    Restart,
    Service,
    Task,
)

SERVER, FRONT = "server", "front"
PORT = "group"  # where rank 0 waits for the others
MEMBERS_FILE = "local/members.json"
# A shell that sleeps, within what is planned for the member: its server gets as much less.
FRONT_CPU_MHZ, FRONT_MEMORY_MB = 10, 10
# Only hosts whose fabric was checked take members.
ADMITTED = {metadata.MEMBERS: metadata.YES}
# A broken group forms again on its hosts; after so many times within the interval its allocations
# fail. So do those of a member that gives its host back: it ends at once as often
# (services/program/group).
RESTART = Restart(attempts=3, interval_s=600, mode="fail")


def as_member(group: Group, service: str, members: int) -> Group:
    """The group of a replica, as one of several members; rank 0 registers its services.

    They are a task's, so Nomad waits between their end and the server's where it waits for a
    group's services otherwise.
    """
    member = _member_service(f"{service}-member")
    server = _server(group, member.name)
    return dataclasses.replace(
        group,
        ports={**group.ports, PORT: None},
        services=(member,),
        tasks=(
            *(server if task.name == SERVER else _beside_the_check(task) for task in group.tasks),
            _front(group.services, members),
        ),
        shutdown_delay_s=0,
        restart=RESTART,
        on_distinct_hosts=True,
        node_metadata=ADMITTED,
    )


def _member_service(name: str) -> Service:
    """Of all members of a job."""
    meta = {"allocation": "${NOMAD_ALLOC_ID}", "replica": "${NOMAD_ALLOC_NAME}"}
    return Service(name=name, port=PORT, meta=meta)


def _server(group: Group, members: str) -> Task:
    """The server, with the addresses of all members in a file that Nomad keeps up to date."""
    task = next(task for task in group.tasks if task.name == SERVER)
    content = _members_template(members)
    return dataclasses.replace(
        task,
        env={
            **task.env,
            "SLIPWAY_GROUP_ADDRESS": "${meta.address}",
            "SLIPWAY_PORT_GROUP": f"${{NOMAD_PORT_{PORT}}}",
            "SLIPWAY_MEMBERS": MEMBERS_FILE,
        },
        files=(*task.files, File(path=MEMBERS_FILE, content=content, templates=(content,))),
        cpu_mhz=task.cpu_mhz - FRONT_CPU_MHZ - CHECK_CPU_MHZ,
        memory_mb=task.memory_mb - FRONT_MEMORY_MB - CHECK_MEMORY_MB,
        shutdown_delay_s=group.shutdown_delay_s,
        consul_identity=True,
    )


def _beside_the_check(task: Task) -> Task:
    """One that runs before the server has what is planned for the member, too."""
    if not task.runs_before_the_others:
        return task
    return dataclasses.replace(
        task,
        cpu_mhz=task.cpu_mhz - CHECK_CPU_MHZ,
        memory_mb=task.memory_mb - CHECK_MEMORY_MB,
    )


def _members_template(service: str) -> str:
    """A JSON object for each member (services/program/group/members.py)."""
    left, right = LEFT_DELIMITER, RIGHT_DELIMITER
    keys = {
        "replica": ".ServiceMeta.replica",
        "allocation": ".ServiceMeta.allocation",
        "address": ".Address",
        "port": ".Port",
    }
    line = ",".join(
        f"{json.dumps(key)}:{left} {value} | toJSON {right}" for key, value in keys.items()
    )
    return f'{left} range service "{service}" {right}{{{line}}}\n{left} end {right}'


def _front(services: tuple[Service, ...], members: int) -> Task:
    """Runs on rank 0 only, so that only rank 0 registers the model's services."""
    leads = f"test $((NOMAD_ALLOC_INDEX % {members})) -ne 0 || exec sleep infinity"
    return Task(
        name=FRONT,
        command="/bin/sh",
        args=("-c", leads),
        cpu_mhz=FRONT_CPU_MHZ,
        memory_mb=FRONT_MEMORY_MB,
        runs_after_the_others=True,
        services=services,
    )
