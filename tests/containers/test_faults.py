"""What ends around a replica in a container, while replicas beside it stream: real Nomad, real
Docker, real Triton, a fake engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.containers.bed import DEVICES, ContainerHost, Replica, container_host
from tests.containers.streams import WHOLE, streams_of
from tests.docker_programs import docker_programs, missing_to_run
from tests.waiting import until
from toolchain.settings import default_cache

pytestmark = [pytest.mark.binaries]

REPLICAS = 3


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerHost]:
    if reason := missing_to_run():
        pytest.skip(reason)
    programs = docker_programs(default_cache() / "hosts")
    with container_host(tmp_path_factory.mktemp("containers"), programs) as made:
        yield made


@pytest.fixture(scope="module")
def job_id(host: ContainerHost) -> str:
    return host.submit(REPLICAS)


def first_process(host: ContainerHost, replica: Replica) -> int:
    """Of the container, as this machine numbers it."""
    return int(host.docker.client("inspect", "--format={{.State.Pid}}", replica.container))


def launcher(host: ContainerHost, replica: Replica) -> int:
    """The only child of the first process, which passes on signals."""
    first = first_process(host, replica)
    return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])


def kill_container(host: ContainerHost, replica: Replica) -> None:
    host.docker.client("kill", "--signal=KILL", replica.container)


def kill_launcher(host: ContainerHost, replica: Replica) -> None:
    os.kill(launcher(host, replica), signal.SIGKILL)


def restart_docker(host: ContainerHost, _replica: Replica) -> None:
    host.docker.restart()


def kill_docker(host: ContainerHost, _replica: Replica) -> None:
    host.docker.kill()


def restart_agent(host: ContainerHost, _replica: Replica) -> None:
    host.restart_agent()


OF_ONE = [kill_container, kill_launcher]
OF_ALL = [restart_docker, kill_docker, restart_agent]
Fault = Callable[[ContainerHost, Replica], None]


@pytest.mark.parametrize("fault", OF_ONE)
def test_a_replica_that_is_killed_starts_again_and_its_neighbours_go_on(
    host: ContainerHost, job_id: str, fault: Fault
) -> None:
    replicas = host.serving(job_id, REPLICAS)
    killed, *others = replicas
    with streams_of(replicas, host.model.name) as (broken, *kept):
        fault(host, killed)
        with pytest.raises(httpx.HTTPError):
            broken.read_token()
        until(lambda: host.containers().get(killed.name) != killed.container, "its end")
        assert [stream.finish() for stream in kept] == [WHOLE] * len(others)
    again = host.serving(job_id, REPLICAS)
    assert {each.allocation: each.device for each in again} == {
        each.allocation: each.device for each in replicas
    }
    assert {*others} < {*again}
    assert killed not in again


@pytest.mark.parametrize("fault", OF_ALL)
def test_containers_and_their_streams_outlive_what_manages_them(
    host: ContainerHost, job_id: str, fault: Fault
) -> None:
    replicas = host.serving(job_id, REPLICAS)
    processes = [launcher(host, replica) for replica in replicas]
    with streams_of(replicas, host.model.name) as streams:
        fault(host, replicas[0])
        assert [stream.finish() for stream in streams] == [WHOLE] * REPLICAS
    assert host.serving(job_id, REPLICAS) == replicas
    assert [launcher(host, replica) for replica in replicas] == processes


def test_each_container_sees_its_own_device_only(host: ContainerHost, job_id: str) -> None:
    seen = set()
    for replica in host.serving(job_id, REPLICAS):
        environment = Path(f"/proc/{launcher(host, replica)}/environ").read_bytes().split(b"\0")
        assert f"NVIDIA_VISIBLE_DEVICES={replica.device}".encode() in environment
        assert f"CUDA_VISIBLE_DEVICES={replica.device}".encode() in environment
        seen.add(replica.device)
        runtime = "--format={{.HostConfig.Runtime}}"
        assert host.docker.client("inspect", runtime, replica.container).strip() == "nvidia"
    assert len(seen) == REPLICAS


def test_a_container_can_change_nothing_of_its_image_or_the_host(
    host: ContainerHost, job_id: str
) -> None:
    (replica, *_) = host.serving(job_id, REPLICAS)
    pid = launcher(host, replica)
    status = Path(f"/proc/{pid}/status").read_text()
    values = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {int(values[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert values["NoNewPrivs"] == "1"
    writable = {mount for mount, options in mounts(pid).items() if "rw" in options}
    runtime = host.folder / "runtime"
    expected = {f"{runtime}/vllm/{host.model.name}", "/tmp", "/alloc", "/local", "/secrets"}
    assert {each for each in writable if not each.startswith(("/dev", "/proc", "/sys"))} == expected


def mounts(pid: int) -> dict[str, set[str]]:
    """Where a process sees mounts, and their options."""
    lines = Path(f"/proc/{pid}/mounts").read_text().splitlines()
    fields = [line.split() for line in lines]
    return {mount: set(options.split(",")) for _, mount, _, options, *_ in fields}


def test_nothing_of_a_job_is_left_when_it_has_ended(host: ContainerHost, job_id: str) -> None:
    replicas = host.serving(job_id, REPLICAS)
    processes = [first_process(host, replica) for replica in replicas]
    shared = {name for process in processes for name in shared_memory(f"/proc/{process}/root")}
    assert shared
    host.end(job_id)
    until(lambda: not host.containers() or None, "the end of all containers")
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert not host.marked_processes()
    assert not [mount for mount in mounts(os.getpid()) if mount.startswith(str(host.allocations))]
    assert not shared & shared_memory("/")


def shared_memory(root: str) -> set[str]:
    return {entry.name for entry in Path(root, "dev/shm").iterdir()}


def test_more_replicas_than_devices_wait(host: ContainerHost) -> None:
    job_id = host.submit(DEVICES + 1)
    assert len(host.serving(job_id, DEVICES)) == DEVICES
    assert host.blocked(job_id) == {"devices: no devices match request": 1}
    host.end(job_id)


def test_an_image_with_another_vllm_is_refused_and_says_so(host: ContainerHost) -> None:
    job_id = host.submit_planned_with("0.31.0")
    said = until(lambda: host.said(job_id), "what the replica says")
    assert "planned with vLLM 0.31.0, but the image has 0.32.0" in said
    host.end(job_id)
