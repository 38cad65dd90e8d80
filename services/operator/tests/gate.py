"""The gate of a model `m`, and the jobs of its specs, on a node with room for three replicas."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cluster import FILE_SERVER, Cluster
from gates.model_job import ModelJob, group_of, leaving, placed
from gates.protocols import SUFFIXES
from gates.replica_exchange import registered
from hangs import HANG_S
from program.http_json import Api
from program.waiting import wait_until

NANOSECONDS_PER_S = 1_000_000_000
REPLICA_MB, MEMBER_MB = 1300, 1000  # of the node's 4096
GROUP = "replica"
SERVER = f"exec python3 -c '{FILE_SERVER}' {{address}} {{port}}"


def model_job(
    spec: str,
    *,
    service: str = "model-m-all",
    command: str = SERVER,
    before: str = "true",
    count: int = 2,
    suffixes: Iterable[str] = SUFFIXES,
    release: str | None = None,
    members: int = 1,
) -> dict[str, Any]:
    """The job of one spec of the model `m`: a step before, and a server that needs a moment to
    begin. `suffixes` are those of its services; without a `release`, its meta names none. The node
    has room for three replicas of one member, or for two of two members."""
    check = {
        "Name": "http",
        "Type": "http",
        "Path": "/",
        "PortLabel": "http",
        "Interval": NANOSECONDS_PER_S,
        "Timeout": 60 * NANOSECONDS_PER_S,  # on a slow machine, a late answer takes none away
    }
    script = command.format(address="${meta.address}", port="${NOMAD_PORT_http}")
    task = {
        "Name": "server",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", script]},
        "Resources": {"CPU": 50, "MemoryMB": REPLICA_MB if members == 1 else MEMBER_MB},
        "KillSignal": "SIGTERM",
    }
    step = task | {
        "Name": "weights",
        "Config": {"command": "/bin/sh", "args": ["-c", before]},
        "Lifecycle": {"Hook": "prestart", "Sidecar": False},
    }
    group = {
        "Name": GROUP,
        "Count": count * members,
        "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}]}],
        "Services": [
            {
                "Name": service + suffix,
                "Provider": "consul",
                "PortLabel": "http",
                "Address": "${meta.address}",
                "Meta": {"model": "m", "allocation": "${NOMAD_ALLOC_ID}"},
                "Checks": [check],
            }
            for suffix in suffixes
        ]
        + [  # has no check, as Triton's metrics have none
            {
                "Name": f"{service}-triton",
                "Provider": "consul",
                "PortLabel": "http",
                "Address": "${meta.address}",
                "Meta": {"model": "m", "allocation": "${NOMAD_ALLOC_ID}"},
            }
        ],
        "Tasks": [step, task],
        "ShutdownDelay": NANOSECONDS_PER_S,
        "RestartPolicy": {
            "Attempts": 600,
            "Interval": 600 * NANOSECONDS_PER_S,
            "Delay": NANOSECONDS_PER_S // 2,
            "Mode": "delay",
        },
        "Scaling": {
            "Type": "horizontal",
            "Enabled": True,
            "Min": count * members,
            "Max": 4 * members,
            "Policy": {"cooldown": "60s", "check": [{"load": [{"source": "prometheus"}]}]},
        },
    }
    job = {
        "ID": f"model-m-{spec}",
        "Name": f"model-m-{spec}",
        "Type": "service",
        "Datacenters": ["dev"],
        "NodePool": "cpu",
        "Meta": {
            "slipway_model": "m",
            **({"slipway_release": release} if release else {}),
            **({"slipway_members": str(members)} if members > 1 else {}),
        },
        "Update": {"MaxParallel": 0},
        "TaskGroups": [group],
    }
    return {"Job": job, "PreserveCounts": True}


def gate_variables(cluster: Cluster, spec: str, **changes: Any) -> dict[str, Any]:
    document = {
        "schema_version": 2,
        "model": "m",
        "job_id": f"model-m-{spec}",
        "service": "model-m-all",
        "surge": 0,
        "min_replicas": 2,
        "max_replicas": 4,
        "deadline_s": HANG_S,
        "nomad": cluster.address(1, 4646),
        "consul": cluster.consul_address(),
    }
    tokens = {"nomad_token": cluster.management["nomad"]}
    tokens["consul_token"] = cluster.management["consul"]
    return {"document": document | changes, "secrets": {"schema_version": 1, **tokens}}


def gate(cluster: Cluster, spec: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    return cluster.program("model_ready.py", "apply", **gate_variables(cluster, spec, **changes))


def serving(consul: Api) -> list[str]:
    """Allocations that answer by both protocols."""
    return _by_both_protocols(consul, "?passing=1")


def wait_for_serving(consul: Api, allocations: Iterable[str]) -> None:
    """Until these answer, and no others: one late answer takes an allocation away for a moment."""
    wanted = sorted(allocations)

    def others() -> str | None:
        found = serving(consul)
        return None if found == wanted else f"{found} instead of {wanted}"

    wait_until("all answer", others, HANG_S)


def wait_for_any_serving(consul: Api, count: int) -> None:
    """Until at least that many allocations answer."""

    def too_few() -> str | None:
        found = serving(consul)
        return None if len(found) >= count else f"{len(found)} of {count}"

    wait_until("enough answer", too_few, HANG_S)


def announced(consul: Api) -> list[str]:
    """Allocations that are registered for both protocols, whether they answer or not."""
    return _by_both_protocols(consul, "")


def _by_both_protocols(consul: Api, query: str) -> list[str]:
    services = [f"/v1/health/service/model-m-all{suffix}{query}" for suffix in SUFFIXES]
    return sorted(set.intersection(*(set(registered(consul.get(each))) for each in services)))


def placed_of(nomad: Api, spec: str) -> list[dict[str, Any]]:
    return placed(ModelJob(f"model-m-{spec}", nomad).allocations())


def replicas(nomad: Api, spec: str) -> dict[str, str]:
    """Allocation -> when its task began, of those that shall run."""
    found = dict[str, str]()

    def untold() -> str | None:
        """Nomad's servers hear of a task's begin a moment after Consul does."""
        states = {each["ID"]: each["TaskStates"] or {} for each in placed_of(nomad, spec)}
        begun = {each: tasks.get("server", {}).get("StartedAt") for each, tasks in states.items()}
        found.clear()
        found.update(begun)
        return ", ".join(each for each, at in begun.items() if not at) or None

    wait_until("their tasks have begun", untold, HANG_S)
    return found


@contextmanager
def fewest_serving(consul: Api) -> Iterator[Callable[[], int]]:
    """The fewest replicas that could be asked at any moment of the block: those that have answered
    once and are still registered. A check that a loaded machine answers late takes none away."""
    answered = set(serving(consul))
    seen, over = [len(answered)], threading.Event()

    def watch() -> None:
        index = 0
        while not over.is_set():
            _, index = consul.watch("/v1/health/service/model-m-all-openai", index, 1)
            answered.update(serving(consul))
            seen.append(len(answered.intersection(announced(consul))))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: min(seen)
    finally:
        over.set()
        thread.join()


def start_old(cluster: Cluster, nomad: Api, *, count: int, members: int = 1) -> dict[str, Any]:
    """The job of the first spec, up; as Nomad has it then."""
    nomad.post("/v1/jobs", model_job("0", count=count, members=members))
    done = gate(cluster, "0", min_replicas=count)
    assert done.returncode == 0, done.stderr
    return ModelJob("model-m-0", nomad).document()


def same_as_before(document: dict[str, Any], before: dict[str, Any]) -> bool:
    def ours(job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        group = group_of(job)
        indexes = ("CreateIndex", "ModifyIndex")
        return group["Count"], {k: v for k, v in group["Scaling"].items() if k not in indexes}

    return ours(document) == ours(before)


def kill_at_the_first_replica(cluster: Cluster, spec: str) -> None:
    """Runs the gate and kills it when it has taken one replica away."""
    variables = gate_variables(cluster, spec, min_replicas=3)
    process = subprocess.Popen(
        [sys.executable, "-B", str(cluster.script("model_ready.py")), "apply"],
        env=cluster.variables(variables["document"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(variables["secrets"]))
    process.stdin.close()
    job = ModelJob("model-m-0", cluster.nomad(cluster.management["nomad"]))
    assert any("makes room" in line for line in process.stdout)
    wait_until("one is gone", lambda: None if leaving(job.allocations()) else "none yet", HANG_S)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
