"""Documents that an earlier Pulumi program rendered, given to today's programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import BEFORE, GOLDEN, Cluster, running_cluster
from gate import gate, model_job, replicas, wait_for_serving

pytestmark = pytest.mark.binaries


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster("127.94.0.", documents=BEFORE) as cluster:
        yield cluster


def versions(folder: Path) -> dict[str, int]:
    return {
        path.name: json.loads(path.read_text())["schema_version"] for path in folder.glob("*.json")
    }


def test_they_are_of_the_version_before_or_of_a_schema_that_did_not_change() -> None:
    before, today = versions(BEFORE), versions(GOLDEN)
    assert {name: (before[name], today[name]) for name in before.keys() & today.keys()} == {
        "consul-acl.json": (1, 1),
        "consul-workloads.json": (1, 1),
        "cpu-0.json": (2, 3),
        "pool-cpu-ready.json": (1, 2),
        "server-0-consul.json": (2, 3),
        "server-0-nomad.json": (2, 3),
    }


def test_a_cluster_made_from_them_is_ready_and_serves_a_model(cluster: Cluster) -> None:
    assert len(cluster.status()) == 4
    assert all(record["ready"] for record in cluster.status().values())
    document = cluster.golden("nomad-acl")
    assert "accepts the operator's token" in cluster.apply(
        "nomad_acl.py", document, cluster.operator("nomad")
    )
    nomad = cluster.nomad(cluster.management["nomad"])
    nomad.post("/v1/jobs", model_job("0", count=1))
    names = ("model", "job_id", "service")
    before: dict[str, Any] = cluster.golden("model-sim-ready")
    done = gate(cluster, "0", **{key: before[key] for key in before if key not in names})
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for_serving(cluster.consul(cluster.management["consul"]), replicas(nomad, "0"))


def test_applied_again_by_todays_programs_they_leave_their_agents_running(cluster: Cluster) -> None:
    before = cluster.pids()
    cluster.up()
    assert cluster.pids() == before
