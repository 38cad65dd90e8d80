"""Replicas leave a device that turned bad, under a real Nomad."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nomad_cluster import (
    NomadCluster,
    devices_of,
    eventually,
    nomad_cluster,
    restarts,
)

pytestmark = pytest.mark.binaries
PROGRAM = Path(__file__).parents[1] / "evacuate.py"
DEVICES = 4


@pytest.fixture
def cluster(nvml_library: Path, tmp_path: Path) -> Iterator[NomadCluster]:
    with nomad_cluster(nvml_library, tmp_path, "127.92.0.", hosts=2, devices=DEVICES) as cluster:
        yield cluster


@pytest.fixture
def evacuation(cluster: NomadCluster, tmp_path: Path) -> Iterator[Path]:
    """The program, and the file of what it says."""
    log = tmp_path / "evacuation.log"
    environment = {
        "NOMAD_ADDR": f"http://{cluster.prefix}1:4646",
        "NOMAD_TOKEN": "",
        "NOMAD_CACERT": "secrets/ca.pem",
    }
    with log.open("wb") as said:
        program = subprocess.Popen(
            [sys.executable, PROGRAM], env={**os.environ, **environment}, stdout=said, stderr=said
        )
    yield log
    assert program.poll() is None, log.read_text()
    program.kill()
    program.wait()


def breaks(cluster: NomadCluster, uuid: str) -> None:
    """For good, so that it is seen whenever the plugin looks."""
    for host in cluster.hosts:
        for index, each in enumerate(cluster.healthy(host)):
            if each == uuid:
                host.nvml.set(index, remap_pending=0, remap_failed=1)


def test_a_replica_moves_to_a_spare_device_or_says_what_it_waits_for(
    cluster: NomadCluster, evacuation: Path
) -> None:
    cluster.submit("filler", count=1, devices=1)
    cluster.all_running("filler", 1)
    cluster.submit("main", count=6, devices=1)
    before = cluster.all_running("main", 6)

    bad = devices_of(before[0])[0]
    breaks(cluster, bad)
    moved = eventually("a move", lambda: others_than(bad, cluster, 6))
    stayed = ids(before) & ids(moved)
    assert stayed == ids(before) - {before[0]["ID"]}
    assert restarts([each for each in moved if each["ID"] in stayed]) == 0
    assert "moves main on" in evacuation.read_text()

    # Now there is no spare device: the replica runs on until one becomes free.
    second = next(each for each in moved if each["ID"] in stayed)
    breaks(cluster, devices_of(second)[0])
    waits = "waits for another place: main on"
    eventually("a wait", lambda: waits in evacuation.read_text() or None)
    assert "as it takes, 1" in evacuation.read_text().partition(waits)[2]
    assert ids(cluster.all_running("main", 6)) == ids(moved)
    cluster.end("filler")
    after = eventually("a move", lambda: others_than(devices_of(second)[0], cluster, 6))
    assert ids(moved) - ids(after) == {second["ID"]}
    assert restarts(after) == 0


def others_than(device: str, cluster: NomadCluster, count: int) -> list[dict[str, Any]] | None:
    """The job's allocations once so many run, none of them on the device."""
    found = [each for each in cluster.running("main") if each["ClientStatus"] == "running"]
    taken = {uuid for each in found for uuid in devices_of(each)}
    return found if len(found) == count and device not in taken else None


def ids(allocations: list[dict[str, Any]]) -> set[str]:
    return {each["ID"] for each in allocations}
