"""A host with accelerators: examined, brought up, and told when a device turns bad.

The host has no device: a library and a program in place of NVIDIA's answer from files.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from cli.applied import from_document
from cli.clusters.measured import measure
from slipway.planner.engines.vllm.metrics import METRICS
from slipway.planner.reports.comparison import MeasuredDevices
from tests.hosts.bed import NETWORK, Bed, Host
from tests.hosts.environment import Checkout, environment, listed
from tests.unit.cli.documents import plan_document
from tests.waiting import HANG_S

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "services/devices/tests/library/nvml.c"
SCHEMA = json.loads((ROOT / "schemas/hosts.schema.json").read_text())
SERVER, GPU, EDGE = f"{NETWORK}.11", f"{NETWORK}.41", f"{NETWORK}.31"
NOMAD, PROMETHEUS = f"https://{SERVER}:4646", f"https://{EDGE}:9090"
DEVICES = 4
UUIDS = [f"GPU-{index:08x}-0000-0000-0000-000000000000" for index in range(DEVICES)]
XID = 8  # the type of such events in NVML
FOLDER = "/etc/nvml"
POOLS = {
    "gpu": {
        "kind": "metal",
        "accelerator": "L40S",
        "accelerators_per_node": DEVICES,
        "hosts": listed({"gpu-0": GPU}),
        "memory": "16GiB",
        "cpu": 8,
    },
    "edge": {
        "kind": "metal",
        "hosts": listed({"edge-0": EDGE}),
        "memory": "4GiB",
        "cpu": 2,
    },
}


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {"server-0": SERVER, "gpu-0": GPU, "edge-0": EDGE}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Of an environment without models, which is not up yet."""
    settings = {"pools": POOLS, "gateway": {"pool": "edge"}}
    with environment(hosts, tmp_path_factory, models={}, settings=settings) as made:
        yield made


@pytest.fixture(scope="module")
def gpu(hosts: Bed) -> Host:
    return hosts.hosts["gpu-0"]


def smi(name: str = "NVIDIA L40S", devices: int = DEVICES) -> str:
    """A program in place of nvidia-smi, which shows so many devices."""
    line = f"{name}, 46068, 580.95.05, Enabled, Enabled, [N/A]"
    return f"#!/bin/sh\n[ \"$1\" = -L ] && exit 0\nyes '{line}' | head -n {devices}\n"


def used_mib(uuid: str) -> int:
    return 40_000 + UUIDS.index(uuid)


def table() -> str:
    lines = ["driver=580.95.05", f"count={DEVICES}"]
    for index, uuid in enumerate(UUIDS):
        lines += [
            f"{index}.uuid={uuid}",
            f"{index}.name=NVIDIA L40S",
            f"{index}.memory={46068 << 20}",
            f"{index}.used={used_mib(uuid) << 20}",
            f"{index}.pci=0000:{0x10 + index:02x}:00",
            f"{index}.event_types={XID}",
            f"{index}.temperature=41",
        ]
    return "\n".join(lines) + "\n"


def write(host: Host, file: str, content: str) -> None:
    host.ssh(f"mkdir -p $(dirname {file}) && cat > {file} && chmod 755 {file}", content)


def device_checks(checkout: Checkout) -> dict[str, str]:
    """What `doctor` says is wrong with the host, by name."""
    done = checkout.slipway("doctor", "--host", "gpu-0", "--json", check=False)
    checks = json.loads(done.stdout)
    return {check["name"]: check["detail"] for check in checks if check["state"] == "fail"}


def row(checkout: Checkout) -> dict[str, Any]:
    document = json.loads(checkout.slipway("hosts", "--json").stdout)
    jsonschema.validate(document, SCHEMA)
    return next(each for each in document["hosts"] if each["name"] == "gpu-0")


def eventually(holds: Callable[[], Any]) -> Any:
    """The first answer that is true."""
    wait = Retrying(
        stop=stop_after_delay(HANG_S),
        wait=wait_fixed(1),
        retry=retry_if_not_result(bool),
        reraise=True,
    )
    return wait(holds)


def test_a_host_without_its_driver_gets_nothing(checkout: Checkout, gpu: Host) -> None:
    assert "nvidia-smi is not installed" in device_checks(checkout)["driver"]
    done = checkout.slipway("up", check=False)
    assert done.returncode == 1
    assert "has no nvidia driver that answers" in done.stdout + done.stderr
    gpu.ssh("test ! -e /opt/slipway")


def test_everything_that_is_wrong_with_the_devices_is_told(checkout: Checkout, gpu: Host) -> None:
    write(gpu, "/usr/bin/nvidia-smi", smi("NVIDIA L4", devices=3))
    assert device_checks(checkout) == {
        "devices": "gpu-0 shows 3 of 4 devices",
        "model": "gpu-0 has NVIDIA L4; its pool has NVIDIA L40S",
    }


@pytest.fixture(scope="module")
def platform(checkout: Checkout, gpu: Host, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The environment, up, with the host's devices."""
    library = tmp_path_factory.mktemp("library") / "libnvidia-ml.so.1"
    folder = f'-DFOLDER="{FOLDER}"'
    subprocess.run(["cc", "-shared", "-fPIC", folder, "-o", library, LIBRARY], check=True)
    gpu.put(library, "/usr/lib/x86_64-linux-gnu")
    write(gpu, f"{FOLDER}/table", table())
    write(gpu, "/usr/bin/nvidia-smi", smi())
    checkout.slipway("up")
    return checkout


def test_nomad_knows_the_devices_of_the_host(platform: Checkout) -> None:
    node = next(each for each in platform.ask(f"{NOMAD}/v1/nodes") if each["Name"] == "gpu-0")
    resources = platform.ask(f"{NOMAD}/v1/node/{node['ID']}")["NodeResources"]
    (group,) = resources["Devices"]
    assert (group["Vendor"], group["Type"], group["Name"]) == ("nvidia", "gpu", "NVIDIA L40S")
    assert {each["ID"]: each["Healthy"] for each in group["Instances"]} == dict.fromkeys(
        UUIDS, True
    )
    assert resources["Memory"]["MemoryMB"] == 16 * 1024
    assert resources["Cpu"]["CpuShares"] == 8000


def test_prometheus_has_the_figures_of_the_devices(platform: Checkout) -> None:
    query = f"{PROMETHEUS}/api/v1/query?query=DCGM_FI_DEV_GPU_TEMP"
    found = eventually(lambda: platform.ask(query)["data"]["result"])
    assert {each["metric"]["UUID"]: each["value"][1] for each in found} == dict.fromkeys(
        UUIDS, "41"
    )
    assert {each["metric"]["node"] for each in found} == {"gpu-0"}


def test_a_model_is_compared_by_the_figures_of_the_devices_that_nomad_gave_it(
    platform: Checkout,
) -> None:
    """Two of four, which no other job has; no engine runs on them."""
    applied = dataclasses.replace(
        from_document(plan_document()), prometheus=PROMETHEUS, operator=platform.operator
    )
    with holding(platform, "model-chat-3f9c1a", devices=2):
        own = eventually(lambda: taken(platform, "model-chat-3f9c1a"))
        seen = measure(applied, {"chat": METRICS}, allocations(platform), window_s=60)["chat"]
    assert len(own) == 2
    assert seen.jobs == ("model-chat-3f9c1a",)
    assert seen.devices == MeasuredDevices(
        models=("NVIDIA L40S",),
        drivers=("580.95.05",),
        used_bytes=max(map(used_mib, own)) << 20,
    )
    assert (seen.replicas, seen.kv_tokens) == (0, None)


def test_a_device_that_turns_bad_is_named_until_the_host_is_returned(
    platform: Checkout, gpu: Host
) -> None:
    gpu.ssh(f"echo '1 {XID} 79' >> {FOLDER}/events")
    bad = eventually(lambda: row(platform)["unhealthy_devices"])
    assert list(bad) == [UUIDS[1]]
    assert "XID 79" in bad[UUIDS[1]]
    status = platform.slipway("status", check=False)
    assert UUIDS[1] in status.stdout + status.stderr
    platform.slipway("return", "gpu-0")
    eventually(lambda: not row(platform)["unhealthy_devices"])


def test_the_job_that_moves_replicas_may_do_what_it_has_to(platform: Checkout, gpu: Host) -> None:
    """A replica of nobody's on the bad device: it moves to another one of the host."""
    platform.ask(f"{NOMAD}/v1/job/device-evacuation")
    with holding(platform, "holder", devices=1):
        (before,) = eventually(lambda: taken(platform, "holder"))
        index = UUIDS.index(before)
        gpu.ssh(f"echo '{index} {XID} 79' >> {FOLDER}/events")
        others = frozenset(UUIDS) - {before}
        eventually(lambda: (found := taken(platform, "holder")) and found <= others)


@contextmanager
def holding(platform: Checkout, job_id: str, *, devices: int) -> Iterator[None]:
    """A job, which does nothing, has so many devices."""
    task = {
        "Name": "server",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sleep", "args": ["3600"]},
        "Resources": {
            "CPU": 10,
            "MemoryMB": 10,
            "Devices": [{"Name": "nvidia/gpu", "Count": devices}],
        },
    }
    job = {
        "ID": job_id,
        "Type": "service",
        "Datacenters": ["hosts"],
        "NodePool": "gpu",
        "Update": {"MaxParallel": 0},
        "TaskGroups": [{"Name": "replica", "Count": 1, "Tasks": [task]}],
    }
    platform.post_to(f"{NOMAD}/v1/jobs", {"Job": job})
    try:
        yield
    finally:
        platform.delete(f"{NOMAD}/v1/job/{job_id}?purge=true")


def allocations(platform: Checkout) -> Any:
    return platform.ask(f"{NOMAD}/v1/allocations?resources=true")


def taken(platform: Checkout, job_id: str) -> frozenset[str]:
    """The devices of the job's running allocation; none if there is none."""
    for each in allocations(platform):
        if (each["JobID"], each["ClientStatus"], each["DesiredStatus"]) == (
            job_id,
            "running",
            "run",
        ):
            (group,) = each["AllocatedResources"]["Tasks"]["server"]["Devices"]
            return frozenset(group["DeviceIDs"])
    return frozenset()
