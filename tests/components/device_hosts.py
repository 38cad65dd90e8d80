"""A real Nomad whose clients announce devices that a library of the tests shows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from components.nomad.agent_config import CLOUD_FINGERPRINTS
from slipway.config.artifacts import REQUIREMENTS
from tests.components.nomad_agent import started_agent
from tests.waiting import until
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "services/devices"
NETWORK = "127.98.1"


@dataclass(frozen=True)
class DeviceHost:
    name: str
    pool: str
    devices: int
    memory_mb: int
    cpu_mhz: int


@contextmanager
def nomad_with_devices(
    folder: Path, hosts: tuple[DeviceHost, ...], *, datacenter: str
) -> Iterator[httpx.Client]:
    """The server's API, once every host has announced its devices. ACLs are off."""
    library = nvml_library(folder)
    with ExitStack() as stack:
        server = started_agent(folder / "server", f"{NETWORK}.1", server_configuration(datacenter))
        client = stack.enter_context(server)
        for number, host in enumerate(hosts):
            place = folder / host.name
            nvml_table(place, host, number)
            variables = {"LD_LIBRARY_PATH": str(library), "NVML_TABLE": str(place)}
            configuration = client_configuration(host, place, datacenter, server=f"{NETWORK}.1")
            agent = started_agent(place, f"{NETWORK}.{16 + number}", configuration, **variables)
            stack.enter_context(agent)
        until(lambda: announced(client, hosts) or None, "all hosts and their devices")
        yield client


def nvml_library(folder: Path) -> Path:
    """The folder of a libnvidia-ml.so.1 that answers from a table."""
    target = folder / "library/libnvidia-ml.so.1"
    target.parent.mkdir()
    flags = ("-shared", "-fPIC", f"-Wl,-soname,{target.name}")
    subprocess.run(["cc", *flags, "-o", target, SERVICE / "tests/library/nvml.c"], check=True)
    return target.parent


def nvml_table(folder: Path, host: DeviceHost, number: int) -> None:
    """What the library answers, each device with a UUID of its own."""
    folder.mkdir()
    lines = ["driver=580.95.05", f"count={host.devices}"]
    for index in range(host.devices):
        lines += [
            f"{index}.uuid=GPU-{number:04x}{index:04x}-0000-0000-0000-000000000000",
            f"{index}.name=NVIDIA H100 80GB HBM3",
            f"{index}.memory={81559 << 20}",
            f"{index}.pci=0000:{0x10 + index:02x}:00",
        ]
    (folder / "table").write_text("\n".join(lines) + "\n")


def server_configuration(datacenter: str) -> dict[str, Any]:
    return {
        "name": "server",
        "datacenter": datacenter,
        "server": {"enabled": True, "bootstrap_expect": 1},
    }


def client_configuration(
    host: DeviceHost, folder: Path, datacenter: str, *, server: str
) -> dict[str, Any]:
    """Of a client whose plugin of devices keeps its record in `folder`."""
    environment = environment_folder("devices", ROOT / REQUIREMENTS["devices"], default_cache())
    program = [str(environment / "bin/python"), str(SERVICE / "device_plugin.py")]
    arguments = [*program, "--vendor", "nvidia", "--record", str(folder / "faults.json")]
    return {
        "name": host.name,
        "datacenter": datacenter,
        "plugin_dir": str(SERVICE / "plugin_dir"),
        "client": {
            "enabled": True,
            "node_pool": host.pool,
            "servers": [f"{server}:4647"],
            "network_interface": "lo",
            "cpu_total_compute": host.cpu_mhz,
            "memory_total_mb": host.memory_mb,
            "options": {"driver.allowlist": "raw_exec", "fingerprint.denylist": CLOUD_FINGERPRINTS},
        },
        "plugin": [
            {"raw_exec": {"config": [{"enabled": True}]}},
            {"slipway-devices": {"args": arguments}},
        ],
    }


def announced(client: httpx.Client, hosts: tuple[DeviceHost, ...]) -> bool:
    """Whether the server could place work on all devices of all hosts: a host announces devices
    before it is ready, and each of them before it is known to be well."""
    try:
        listed = client.get("/v1/nodes").raise_for_status().json()
        nodes = [client.get(f"/v1/node/{each['ID']}").raise_for_status().json() for each in listed]
    except httpx.HTTPStatusError:
        return False  # a server on a busy machine may look for its leader once more
    found = {node["Name"]: healthy_devices(node) for node in nodes}
    return found == {host.name: host.devices for host in hosts}


def healthy_devices(node: dict[str, Any]) -> int:
    """How many devices of a host Nomad could give to a task now."""
    driver = (node["Drivers"] or {}).get("raw_exec") or {}
    if node["Status"] != "ready" or not driver.get("Healthy", False):
        return 0
    groups = (node["NodeResources"] or {}).get("Devices") or []
    return sum(instance["Healthy"] for group in groups for instance in group["Instances"])
