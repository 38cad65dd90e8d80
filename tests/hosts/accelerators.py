"""Hosts with accelerators, for an environment of a test bed.

The hosts have no device: a library and a program in place of NVIDIA's answer from files. So no
engine of a real device can run either: its replicas are simulated ones, while everything around
them is what the platform brings to hosts with devices.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.hosts.bed import NETWORK, Bed, Host
from tests.hosts.environment import Checkout, listed
from tests.live.environments import SIMULATED_ENGINE, copy_tree

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "services/devices/tests/library/nvml.c"
SERVER, EDGE = f"{NETWORK}.11", f"{NETWORK}.31"
GPUS = {f"gpu-{k}": f"{NETWORK}.4{1 + k}" for k in range(2)}
ADDRESSES = {"server-0": SERVER, **GPUS, "edge-0": EDGE}
NOMAD, CONSUL = f"https://{SERVER}:4646", f"https://{SERVER}:8501"
DEVICES = 4  # of each host
UUIDS = {
    host: [f"GPU-{k:04x}{index:04x}-0000-0000-0000-000000000000" for index in range(DEVICES)]
    for k, host in enumerate(GPUS)
}
XID = 8  # the type of such events in NVML
FALLEN_OFF_THE_BUS = 79
FOLDER = "/etc/nvml"
MEMORY_GIB, CORES = 64, 16  # that tasks get of each host, which does not have them
POOLS = {
    "gpu": {
        "kind": "metal",
        "accelerator": "L40S",
        "accelerators_per_node": DEVICES,
        "hosts": listed(GPUS),
        "memory": f"{MEMORY_GIB}GiB",
        "cpu": CORES,
    },
    "edge": {
        "kind": "metal",
        "hosts": listed({"edge-0": EDGE}),
        "memory": "4GiB",
        "cpu": 2,
    },
}
SETTINGS: Mapping[str, Any] = {
    "pools": POOLS,
    "gateway": {"pool": "edge"},
    "autoscaling": {"evaluation_interval_s": 3600},  # the tests decide the counts
}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model of the environment: the devices of a replica, and its most replicas; one at least."""

    devices: int
    most: int


MODELS = {
    "one": Model(devices=1, most=2),
    "other": Model(devices=1, most=2),
    "pair": Model(devices=2, most=1),
    "twin": Model(devices=2, most=1),
}


def write(host: Host, file: str, content: str) -> None:
    host.ssh(f"mkdir -p $(dirname {file}) && cat > {file} && chmod 755 {file}", content)


def smi(name: str = "NVIDIA L40S", devices: int = DEVICES) -> str:
    """A program in place of nvidia-smi, which shows so many devices."""
    line = f"{name}, 46068, 580.95.05, Enabled, Enabled, [N/A]"
    return f"#!/bin/sh\n[ \"$1\" = -L ] && exit 0\nyes '{line}' | head -n {devices}\n"


def used_mib(uuid: str) -> int:
    """The memory in use of a device, another for each."""
    host, index = place_of(uuid)
    return 40_000 + list(GPUS).index(host) * DEVICES + index


def table(host: str) -> str:
    """What the library answers there."""
    lines = ["driver=580.95.05", f"count={DEVICES}"]
    for index, uuid in enumerate(UUIDS[host]):
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


def put_devices(hosts: Bed, folder: Path, names: Iterable[str] = tuple(GPUS)) -> None:
    """Gives these hosts their devices; `folder` is for the library."""
    library = folder / "libnvidia-ml.so.1"
    place = f'-DFOLDER="{FOLDER}"'
    subprocess.run(["cc", "-shared", "-fPIC", place, "-o", library, LIBRARY], check=True)
    for name in names:
        host = hosts.hosts[name]
        host.put(library, "/usr/lib/x86_64-linux-gnu")
        write(host, f"{FOLDER}/table", table(name))
        write(host, "/usr/bin/nvidia-smi", smi())


def breaks(hosts: Bed, uuid: str) -> None:
    """The device falls off the bus."""
    name, index = place_of(uuid)
    hosts.hosts[name].ssh(f"echo '{index} {XID} {FALLEN_OFF_THE_BUS}' >> {FOLDER}/events")


def place_of(uuid: str) -> tuple[str, int]:
    """The host of a device, and its number there."""
    (found,) = [(host, uuids.index(uuid)) for host, uuids in UUIDS.items() if uuid in uuids]
    return found


def health(checkout: Checkout) -> dict[str, bool]:
    """What the servers know: UUID -> whether the device is healthy."""
    return {
        each["ID"]: each["Healthy"]
        for node in checkout.ask(f"{NOMAD}/v1/nodes?resources=true")
        for group in node["NodeResources"]["Devices"] or ()
        for each in group["Instances"]
    }


# In place of services/triton_vllm/launcher.py: it reads the same document.
LAUNCHER = """\
import json
import sys
from pathlib import Path

from watched.main import main

path = Path(sys.argv[sys.argv.index("--document") + 1])
simulated = path.with_name("simulated.json")
document = json.loads(path.read_text())
document["engine"] = json.loads({engine!r})
simulated.write_text(json.dumps(document))
sys.argv[-1] = str(simulated)
sys.exit(main())
"""
ENVIRONMENTS = '{"nvidia": {"triton": "triton", "vllm": "vllm_cuda"}}'  # gigabytes


def with_simulated_replicas(folder: Path) -> None:
    """A checkout whose replicas on accelerators are simulated: in the folder and the environment of
    the program that runs on the hosts, nowhere else."""
    copy_tree(folder)
    adapter = folder / "src/slipway/planner/engines/vllm/adapter.py"
    text = adapter.read_text()
    assert ENVIRONMENTS in text
    adapter.write_text(text.replace(ENVIRONMENTS, '{"nvidia": {"triton": "engine_sim"}}'))
    simulator, replica = folder / "services/engine_sim", folder / "services/triton_vllm"
    for package in ("simulator", "watched"):
        shutil.copytree(simulator / package, replica / package)
    for file in ("engine_sim.py", "profiles.json"):
        shutil.copy(simulator / file, replica)
    engine = json.dumps({**SIMULATED_ENGINE, "kv_cache_bytes": 1 << 34})
    (replica / "launcher.py").write_text(LAUNCHER.format(engine=engine))


def change(checkout: Checkout, model: str, max_num_seqs: int) -> None:
    """A setting of its engine, so that its replicas are exchanged."""
    path = checkout.folder / f"models/{model}.yaml"
    document = yaml.safe_load(path.read_text())
    document["engine"]["max_num_seqs"] = max_num_seqs
    path.write_text(yaml.safe_dump(document))


@dataclass(frozen=True, kw_only=True)
class Replica:
    """An allocation that takes devices, according to Nomad. One that does not stay still does so
    while it drains."""

    id: str
    model: str
    devices: frozenset[str]
    running: bool
    stays: bool


def allocations(checkout: Checkout) -> Iterator[Replica]:
    """Of all models."""
    for each in checkout.ask(f"{NOMAD}/v1/allocations?resources=true"):
        model = re.fullmatch(r"model-(.+)-[0-9a-f]+", each["JobID"])
        if model and each["ClientStatus"] in ("pending", "running"):
            tasks = each["AllocatedResources"]["Tasks"].values()
            devices = (device for task in tasks for device in task["Devices"] or ())
            yield Replica(
                id=each["ID"],
                model=model[1],
                devices=frozenset(uuid for device in devices for uuid in device["DeviceIDs"]),
                running=each["ClientStatus"] == "running",
                stays=each["DesiredStatus"] == "run",
            )


def replicas(checkout: Checkout) -> list[Replica]:
    """Those that stay."""
    return [each for each in allocations(checkout) if each.stays]


def answering(checkout: Checkout) -> set[str]:
    """The allocations that pass their checks in Consul."""
    passing = [
        each["ServiceID"]
        for each in checkout.ask(f"{CONSUL}/v1/health/state/passing")
        if each["ServiceName"].endswith("-openai")
    ]
    return {
        each.id for each in allocations(checkout) if any(each.id in service for service in passing)
    }


def job_of(checkout: Checkout, model: str) -> str:
    (job,) = [
        each["ID"]
        for each in checkout.ask(f"{NOMAD}/v1/jobs?meta=true")
        if (each["Meta"] or {}).get("slipway_model") == model and not each["Stop"]
    ]
    return str(job)


def scale(checkout: Checkout, model: str, count: int) -> None:
    """As the autoscaler does."""
    body = {"Count": count, "Target": {"Group": "replica"}, "Message": "a test"}
    checkout.post_to(f"{NOMAD}/v1/job/{job_of(checkout, model)}/scale", body)


@dataclass(frozen=True, kw_only=True)
class TaskProcess:
    """The main process of a replica's task, as this machine sees it."""

    pid: int
    parent: int = field(compare=False)  # a task outlives the agent that started it
    allocation: str
    task: str
    devices: frozenset[str]  # that it may see


def task_processes() -> list[TaskProcess]:
    """Of all replicas on all hosts: engines or their watchers, and the proxies beside them."""
    every = {(each.pid, each.allocation, each.task): each for each in _with_their_children()}
    return [
        each for each in every.values() if (each.parent, each.allocation, each.task) not in every
    ]


def _with_their_children() -> Iterator[TaskProcess]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            # After the name in parentheses: its state, then its parent.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended
            continue
        known = dict(each.partition("=")[::2] for each in variables)
        ours = known.get("NOMAD_TASK_DIR", "").startswith("/var/lib/slipway/")
        if ours and known["NOMAD_JOB_NAME"].startswith("model-"):
            devices = known.get("CUDA_VISIBLE_DEVICES", "")
            yield TaskProcess(
                pid=int(folder.name),
                parent=parent,
                allocation=known["NOMAD_ALLOC_ID"],
                task=known["NOMAD_TASK_NAME"],
                devices=frozenset(filter(None, devices.split(","))),
            )


def engines() -> list[TaskProcess]:
    return [each for each in task_processes() if each.task == "server"]


def agents() -> list[int]:
    """The processes of Nomad's agents on hosts with devices."""
    return _processes_of(b"/nomad\0agent\0-config=/var/lib/slipway/hosts/nodes/gpu-")


def plugins() -> list[int]:
    """Those of the device plugins, children of the agents."""
    return _processes_of(b"/device_plugin.py\0--vendor=nvidia\0--record=/var/lib/slipway/hosts/")


def _processes_of(command: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended
            if command in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return sorted(found)
