"""The gate against real Nomad and Consul, on a node with room for three replicas."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, passing, running_cluster
from http_json import Api
from model_job import ModelJob, group_of, is_reduced, leaving, placed
from waiting import wait_until

pytestmark = [pytest.mark.binaries, pytest.mark.timeout(120)]

NANOSECONDS_PER_S = 1_000_000_000
REPLICA_MB = 1300  # of the node's 4096
GROUP = "replica"
SERVER = "exec python3 -m http.server --bind {address} {port}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster("127.97.0.") as cluster:
        yield cluster


@pytest.fixture
def nomad(cluster: Cluster) -> Iterator[Api]:
    """Nomad without jobs, before and after."""
    api = cluster.nomad(cluster.management["nomad"])
    yield api
    for job in api.get("/v1/jobs"):
        api.delete(f"/v1/job/{job['ID']}?purge=true&no_shutdown_delay=true")
    wait_until("an empty node", lambda: running(api) or None, 30)


@pytest.fixture
def consul(cluster: Cluster) -> Api:
    return cluster.consul(cluster.management["consul"])


def running(nomad: Api) -> str:
    return ", ".join(
        each["Name"] for each in nomad.get("/v1/allocations") if each["ClientStatus"] == "running"
    )


def model_job(
    spec: str,
    *,
    service: str = "model-m-all",
    command: str = SERVER,
    before: str = "true",
    count: int = 2,
) -> dict[str, Any]:
    """The job of one spec of the model `m`: a step before, and a server that needs a moment to
    begin."""
    check = {
        "Name": "http",
        "Type": "http",
        "Path": "/",
        "PortLabel": "http",
        "Interval": NANOSECONDS_PER_S,
        "Timeout": 2 * NANOSECONDS_PER_S,
    }
    script = command.format(address="${meta.address}", port="${NOMAD_PORT_http}")
    task = {
        "Name": "server",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", script]},
        "Resources": {"CPU": 50, "MemoryMB": REPLICA_MB},
        "KillSignal": "SIGTERM",
    }
    step = task | {
        "Name": "weights",
        "Config": {"command": "/bin/sh", "args": ["-c", before]},
        "Lifecycle": {"Hook": "prestart", "Sidecar": False},
    }
    group = {
        "Name": GROUP,
        "Count": count,
        "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}]}],
        "Services": [
            {
                "Name": f"{service}-{door}",
                "Provider": "consul",
                "PortLabel": "http",
                "Address": "${meta.address}",
                "Meta": {"model": "m", "allocation": "${NOMAD_ALLOC_ID}"},
                "Checks": [check],
            }
            for door in ("openai", "grpc")
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
            "Min": count,
            "Max": 4,
            "Policy": {"cooldown": "60s", "check": [{"load": [{"source": "prometheus"}]}]},
        },
    }
    job = {
        "ID": f"model-m-{spec}",
        "Name": f"model-m-{spec}",
        "Type": "service",
        "Datacenters": ["dev"],
        "NodePool": "cpu",
        "Meta": {"slipway_model": "m"},
        "Update": {"MaxParallel": 0},
        "TaskGroups": [group],
    }
    return {"Job": job, "PreserveCounts": True}


def gate_variables(cluster: Cluster, spec: str, **changes: Any) -> dict[str, Any]:
    document = {
        "schema_version": 1,
        "model": "m",
        "job_id": f"model-m-{spec}",
        "service": "model-m-all",
        "surge": 0,
        "min_replicas": 2,
        "max_replicas": 4,
        "deadline_s": 30,
        "nomad": cluster.address(1, 4646),
        "consul": cluster.address(1, 8500),
    }
    tokens = {"nomad_token": cluster.management["nomad"]}
    tokens["consul_token"] = cluster.management["consul"]
    return {"document": document | changes, "secrets": {"schema_version": 1, **tokens}}


def gate(cluster: Cluster, spec: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    return cluster.program("model_ready.py", "apply", **gate_variables(cluster, spec, **changes))


def serving(consul: Api) -> list[str]:
    """Allocations that answer on both doors."""
    doors = [
        {entry["Service"]["Meta"]["allocation"] for entry in passing(consul, f"model-m-all-{door}")}
        for door in ("openai", "grpc")
    ]
    return sorted(set.intersection(*doors))


def placed_of(nomad: Api, spec: str) -> list[dict[str, Any]]:
    return placed(ModelJob(f"model-m-{spec}", nomad).allocations())


def replicas(nomad: Api, spec: str) -> dict[str, str]:
    """Allocation -> when its task began, of those that shall run."""
    found = placed_of(nomad, spec)
    return {each["ID"]: each["TaskStates"]["server"]["StartedAt"] for each in found}


@contextmanager
def fewest_serving(consul: Api) -> Iterator[Callable[[], int]]:
    """The fewest replicas that answered at any moment of the block, as Consul told."""
    seen, over = [len(serving(consul))], threading.Event()

    def watch() -> None:
        index = 0
        while not over.is_set():
            _, index = consul.watch("/v1/health/service/model-m-all-openai?passing=1", index, 1)
            seen.append(len(serving(consul)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: min(seen)
    finally:
        over.set()
        thread.join()


def start_old(cluster: Cluster, nomad: Api, *, count: int) -> dict[str, Any]:
    """The job of the first spec, up; as Nomad has it then."""
    nomad.post("/v1/jobs", model_job("0", count=count))
    done = gate(cluster, "0", min_replicas=count)
    assert done.returncode == 0, done.stderr
    return ModelJob("model-m-0", nomad).document()


def same_as_before(document: dict[str, Any], before: dict[str, Any]) -> bool:
    def ours(job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        group = group_of(job)
        indexes = ("CreateIndex", "ModifyIndex")
        return group["Count"], {k: v for k, v in group["Scaling"].items() if k not in indexes}

    return ours(document) == ours(before)


def test_a_full_node_exchanges_replica_by_replica_and_leaves_the_others_alone(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("1", count=3))
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "1", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() == 2
    assert done.stdout.count("makes room") == 3
    assert serving(consul) == sorted(replicas(nomad, "1"))
    begun = {
        each["ID"]: each["TaskStates"]["server"]["StartedAt"]
        for each in ModelJob("model-m-0", nomad).allocations()
    }
    assert begun == old  # none began again on the way out


def test_a_raised_minimum_is_waited_for(cluster: Cluster, nomad: Api, consul: Api) -> None:
    start_old(cluster, nomad, count=1)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("0", count=3))
    assert ModelJob("model-m-0", nomad).count() == 1  # as Pulumi has it: nobody counted anew
    done = gate(cluster, "0", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(serving(consul)) == 3
    assert old.items() <= replicas(nomad, "0").items()


def test_no_more_replicas_go_than_room_is_needed(cluster: Cluster, nomad: Api, consul: Api) -> None:
    start_old(cluster, nomad, count=2)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("1"))
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() == 2  # the third place was free
    (stays,) = replicas(nomad, "0").items()
    assert stays in old.items()


def test_a_spec_that_cannot_start_gives_every_replica_back_and_can_be_tried_again(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    before = start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3, command="echo no such flag >&2; exit 3"))
    for _ in range(2):  # the second run finds what the first one has left
        with fewest_serving(consul) as fewest:
            done = gate(cluster, "1", min_replicas=3)
        assert done.returncode == 1
        assert "task server ends as often as it starts: Exit Code: 3" in done.stderr
        assert "the replicas of model-m-0 serve\n" in done.stderr
        assert "\n    no such flag\nfix: slipway logs model-m-1 " in done.stderr
        assert fewest() == 2
        assert same_as_before(ModelJob("model-m-0", nomad).document(), before)
        assert len(serving(consul)) == 3
        assert replicas(nomad, "1") == {}


def test_beside_a_set_that_serves_one_that_cannot_start_stands_down_until_its_next_gate(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=1)
    old = replicas(nomad, "0")
    broken = model_job("1", count=1, command="echo no such flag >&2; exit 3")
    for _ in range(2):  # the second run begins anew
        nomad.post("/v1/jobs", broken)
        done = gate(cluster, "1", min_replicas=1, surge=None)
        assert done.returncode == 1
        assert "Exit Code: 3; the replicas of the previous spec go on serving\n" in done.stderr
        assert is_reduced(ModelJob("model-m-1", nomad).document())
        wait_until("it has none", lambda: "some" if placed_of(nomad, "1") else None, 10)
        assert serving(consul) == sorted(old)


def test_a_set_without_another_one_that_serves_is_left_to_come_up(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    nomad.post("/v1/jobs", model_job("1", count=1))
    done = gate(cluster, "1", min_replicas=1, surge=None, deadline_s=0)
    assert "model m: not ready after 0 s" in done.stderr
    wait_until("answers", lambda: None if serving(consul) else "not yet", 20)


def test_a_spec_taken_up_again_that_fails_gives_back_to_the_one_that_served(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    assert gate(cluster, "1", min_replicas=3).returncode == 0
    before = ModelJob("model-m-1", nomad).document()
    nomad.delete("/v1/job/model-m-0")  # as Pulumi does; Nomad remembers it
    nomad.post("/v1/jobs", model_job("0", count=3, command="echo broken now >&2; exit 3"))
    done = gate(cluster, "0", min_replicas=3)
    assert done.returncode == 1
    assert "the replicas of model-m-1 serve\n" in done.stderr
    assert same_as_before(ModelJob("model-m-1", nomad).document(), before)
    assert len(serving(consul)) == 3


def test_a_step_before_the_server_that_fails_is_named_with_its_last_words(
    cluster: Cluster, nomad: Api
) -> None:
    before = "echo another checksum >&2; exit 2"
    nomad.post("/v1/jobs", model_job("1", count=1, before=before))
    done = gate(cluster, "1", min_replicas=1)
    assert done.returncode == 1
    assert "task weights ends as often as it starts: Exit Code: 2" in done.stderr
    assert "\n    another checksum\nfix: slipway logs model-m-1 " in done.stderr


def test_an_old_spec_that_has_lent_its_last_replica_gets_all_back(
    cluster: Cluster, nomad: Api, consul: Api, tmp_path: Path
) -> None:
    """Two replicas of the new spec come up; then the old one has none left, and the third fails."""
    before = start_old(cluster, nomad, count=3)
    one, two = tmp_path / "one", tmp_path / "two"
    third_fails = f"mkdir {one} || mkdir {two} || exit 3; {SERVER}"
    nomad.post("/v1/jobs", model_job("1", count=3, command=third_fails))
    done = gate(cluster, "1", min_replicas=3)
    assert done.returncode == 1
    assert done.stdout.count("a replica of model-m-0 makes room") == 3
    assert "the replicas of model-m-0 serve\n" in done.stderr
    assert same_as_before(ModelJob("model-m-0", nomad).document(), before)
    assert serving(consul) == sorted(each["ID"] for each in placed_of(nomad, "0"))


def test_a_spec_taken_up_again_has_the_count_of_the_one_that_serves(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=2)
    nomad.delete("/v1/job/model-m-0")  # stopped with a count of 2
    wait_until("it ends", lambda: "serving" if serving(consul) else None, 20)
    nomad.post("/v1/jobs", model_job("1", count=1))
    assert gate(cluster, "1", min_replicas=1).returncode == 0
    nomad.post("/v1/jobs", model_job("0", count=1))
    done = gate(cluster, "0", min_replicas=1, surge=None)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ModelJob("model-m-0", nomad).count() == 1


def test_a_killed_exchange_is_completed_by_the_next_run(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    kill_at_the_first_replica(cluster, "1")
    assert is_reduced(ModelJob("model-m-0", nomad).document())
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "1", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() >= 2
    assert serving(consul) == sorted(replicas(nomad, "1"))


def test_a_killed_exchange_is_taken_back_by_the_old_specs_gate(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    before = start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    kill_at_the_first_replica(cluster, "1")
    nomad.post("/v1/jobs", model_job("0", count=3))  # as Pulumi does: it keeps the count
    assert ModelJob("model-m-0", nomad).count() == 2
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "0", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() >= 2
    assert serving(consul) == sorted(replicas(nomad, "0"))
    assert same_as_before(ModelJob("model-m-0", nomad).document(), before)


def test_taking_back_never_ends_what_is_proven_for_what_never_came_up(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    kill_at_the_first_replica(cluster, "1")
    nomad.post("/v1/jobs", model_job("0", count=3))
    done = gate(cluster, "0", min_replicas=3, deadline_s=0)
    assert done.returncode == 1
    assert "what runs of model-m-0 goes on serving" in done.stderr
    assert ModelJob("model-m-0", nomad).count() == 3
    assert len(serving(consul)) >= 2


def kill_at_the_first_replica(cluster: Cluster, spec: str) -> None:
    """Runs the gate and kills it when it has taken one replica away."""
    variables = gate_variables(cluster, spec, min_replicas=3)
    process = subprocess.Popen(
        [sys.executable, "-B", str(cluster.code / "model_ready.py"), "apply"],
        env=os.environ | {"SLIPWAY_DOCUMENT": json.dumps(variables["document"])},
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
    wait_until("one is gone", lambda: None if leaving(job.allocations()) else "none yet", 10)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
