"""The plugin under a real Nomad."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nomad_cluster import (
    HANGS_S,
    NomadCluster,
    devices_of,
    eventually,
    nomad_cluster,
    restarts,
)

pytestmark = pytest.mark.binaries
DEVICES = 4


@pytest.fixture(scope="module")
def cluster(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NomadCluster]:
    root = tmp_path_factory.mktemp("nomad")
    with nomad_cluster(nvml_library, root, "127.91.0.", hosts=2, devices=DEVICES) as cluster:
        yield cluster


def test_hosts_announce_their_devices(cluster: NomadCluster) -> None:
    for host in cluster.hosts:
        node = cluster.get(f"/v1/node/{cluster.node_id(host)}")
        (group,) = node["NodeResources"]["Devices"]
        assert (group["Vendor"], group["Type"]) == ("nvidia", "gpu")
        assert group["Name"] == "NVIDIA H100 80GB HBM3"
        assert group["Attributes"]["memory"]["Int"] == 81559
        assert len(group["Instances"]) == DEVICES


def test_tasks_see_their_own_devices_only(cluster: NomadCluster) -> None:
    cluster.submit("two", count=4, devices=2)
    running = cluster.all_running("two", 4)
    taken = [uuid for each in running for uuid in devices_of(each)]
    assert len(taken) == len(set(taken)) == 8
    for each in running:
        seen = cluster.environment(each)
        assert seen["CUDA_VISIBLE_DEVICES"].split(",") == devices_of(each)
        assert seen["NVIDIA_VISIBLE_DEVICES"] == seen["CUDA_VISIBLE_DEVICES"]
    cluster.end("two")


def test_a_device_that_turns_bad_is_known_to_the_servers_and_gets_no_work(
    cluster: NomadCluster,
) -> None:
    host = cluster.hosts[0]
    bad = next(iter(cluster.healthy(host)))
    host.nvml.xid(0, 79)
    eventually("an unhealthy device", lambda: not cluster.healthy(host)[bad] or None)
    cluster.submit("ones", count=7, devices=1)
    running = cluster.all_running("ones", 7)
    assert bad not in {uuid for each in running for uuid in devices_of(each)}
    cluster.end("ones")


def test_a_killed_plugin_comes_back_with_what_it_knew_and_no_task_ends(
    cluster: NomadCluster,
) -> None:
    host = cluster.hosts[0]
    before = cluster.healthy(host)
    assert list(before.values()).count(False) == 1
    cluster.submit("four", count=4, devices=1)
    running = cluster.all_running("four", 4)
    killed = cluster.plugin(host)
    os.kill(killed, signal.SIGKILL)
    eventually("another plugin", lambda: cluster.plugin(host) not in (0, killed) or None)
    host.nvml.set(1, remap_pending=0, remap_failed=1)  # seen whenever the plugin looks
    eventually(
        "two unhealthy devices",
        lambda: list(cluster.healthy(host).values()).count(False) == 2 or None,
    )
    after = cluster.all_running("four", 4)
    assert {each["ID"] for each in after} == {each["ID"] for each in running}
    assert restarts(after) == 0
    cluster.end("four")


def test_a_restarted_agent_finds_its_devices_and_its_tasks(cluster: NomadCluster) -> None:
    host = cluster.hosts[1]
    cluster.submit("four", count=4, devices=1)
    running = cluster.all_running("four", 4)
    assert host.process is not None
    old_plugin = os.pidfd_open(cluster.plugin(host))
    host.process.kill()
    host.process.wait()
    ended(old_plugin)
    cluster.start_agent(host)
    eventually("its devices", lambda: len(cluster.healthy(host)) == DEVICES or None)
    eventually("a plugin", lambda: cluster.plugin(host) or None)
    after = cluster.all_running("four", 4)
    assert {each["ID"] for each in after} == {each["ID"] for each in running}
    assert restarts(after) == 0


def ended(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(HANGS_S * 1000)
    os.close(process)
