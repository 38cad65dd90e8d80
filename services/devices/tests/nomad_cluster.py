"""A real Nomad whose clients have devices: one server, and hosts with a table of NVML each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fake_nvml import FakeNvml
from program.waiting import wait_until

SERVICE = Path(__file__).parents[1]
HANGS_S = 120.0
T = TypeVar("T")


def eventually(what: str, ask: Callable[[], T | None]) -> T:
    """The first answer that is neither None nor False."""
    found: list[T] = []

    def missing() -> str | None:
        answer = ask()
        if answer is None or answer is False:
            return "not yet"
        found.append(answer)
        return None

    wait_until(what, missing, HANGS_S)
    return found[0]


@dataclass
class Host:
    """A Nomad client."""

    name: str
    address: str
    folder: Path
    nvml: FakeNvml
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "agent.log"

    @property
    def record(self) -> Path:
        return self.folder / "faults.json"


@dataclass
class NomadCluster:
    """`prefix` is a network of its own: "127.91.0."."""

    nomad: Path
    library: Path
    root: Path
    prefix: str
    hosts: list[Host] = field(default_factory=list)
    _server: subprocess.Popen[bytes] | None = None

    def start(self, hosts: int, devices: int) -> None:
        folder = self.root / "server"
        self._server = self._agent(folder, self._server_configuration(folder), {})
        eventually("a leader", lambda: self._leader() or None)
        for number in range(hosts):
            self._add_host(number, devices)
        for host in self.hosts:
            self.start_agent(host)
        eventually("all hosts", lambda: self._ready(devices) or None)

    def start_agent(self, host: Host) -> None:
        environment = {"LD_LIBRARY_PATH": str(self.library), "NVML_TABLE": str(host.nvml.folder)}
        host.process = self._agent(host.folder, self._client_configuration(host), environment)

    def stop(self) -> None:
        """Tasks and what Nomad mounted for them go first: both outlive their agent."""
        for job in self.get("/v1/jobs"):
            self.delete(f"/v1/job/{job['ID']}?purge=true")
        eventually("no task", lambda: not self.running() or None)
        self.call("PUT", "/v1/system/gc")
        eventually("no folder of a task", lambda: all(map(_is_empty, self.hosts)) or None)
        for process in (*(host.process for host in self.hosts), self._server):
            if process is not None:
                process.kill()
                process.wait()

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    def call(self, method: str, path: str, body: Any = None, address: str = "") -> Any:
        url = f"http://{address or self.prefix + '1'}:4646{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=HANGS_S) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error
        return json.loads(content) if content else None

    def submit(self, job_id: str, *, count: int, devices: int) -> None:
        """Tasks that write their environment to local/env, and stay."""
        task = {
            "Name": "server",
            "Driver": "raw_exec",
            "Config": {
                "command": "/bin/sh",
                "args": ["-c", "env > local/env.new; mv local/env.new local/env; exec sleep 3600"],
            },
            "Resources": {
                "CPU": 10,
                "MemoryMB": 10,
                "Devices": [{"Name": "nvidia/gpu", "Count": devices}],
            },
            "KillTimeout": 1_000_000_000,
            "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
        }
        group = {
            "Name": "replica",
            "Count": count,
            "Tasks": [task],
            "RestartPolicy": {
                "Attempts": 100,
                "Interval": 600_000_000_000,
                "Delay": 1,
                "Mode": "delay",
            },
            "EphemeralDisk": {"SizeMB": 10},
        }
        job = {
            "ID": job_id,
            "Type": "service",
            "Datacenters": ["dc1"],
            "TaskGroups": [group],
            "Update": {"MaxParallel": 0},
        }
        self.call("POST", "/v1/jobs", {"Job": job})

    def all_running(self, job_id: str, count: int) -> list[dict[str, Any]]:
        """The job's allocations, once exactly so many run."""

        def running() -> list[dict[str, Any]] | None:
            found = self.running(job_id)
            up = all(each["ClientStatus"] == "running" for each in found)
            return found if up and len(found) == count else None

        return eventually(f"{count} replicas of {job_id}", running)

    def end(self, job_id: str) -> None:
        self.delete(f"/v1/job/{job_id}?purge=true")
        eventually(f"the end of {job_id}", lambda: not self.running(job_id) or None)

    def running(self, job_id: str = "") -> list[dict[str, Any]]:
        """Allocations that run, with their resources."""
        path = f"/v1/job/{job_id}/allocations" if job_id else "/v1/allocations?"
        allocations = self.get(path)
        return [
            self.get(f"/v1/allocation/{each['ID']}")
            for each in allocations
            if each["ClientStatus"] in ("running", "pending") and each["DesiredStatus"] == "run"
        ]

    def healthy(self, host: Host) -> dict[str, bool]:
        """What the servers know: UUID -> whether it is healthy."""
        node = self.get(f"/v1/node/{self.node_id(host)}")
        groups = node["NodeResources"]["Devices"] or []
        return {each["ID"]: each["Healthy"] for group in groups for each in group["Instances"]}

    def node_id(self, host: Host) -> str:
        nodes = self.get("/v1/nodes")
        return str(next(each["ID"] for each in nodes if each["Name"] == host.name))

    def environment(self, allocation: dict[str, Any]) -> dict[str, str]:
        """Of the allocation's task."""
        host = next(each for each in self.hosts if each.name == allocation["NodeName"])
        file = host.folder / f"data/alloc/{allocation['ID']}/server/local/env"
        text = eventually(str(file), lambda: file.read_text() if file.exists() else None)
        pairs = (line.partition("=") for line in text.splitlines())
        return {name: value for name, _, value in pairs}

    def plugin(self, host: Host) -> int:
        """The process of the host's plugin, which is the child of its agent; 0 if there is none."""
        assert host.process is not None
        agent = host.process.pid
        children = Path(f"/proc/{agent}/task").glob("*/children")
        for child in (pid for file in children for pid in file.read_text().split()):
            try:
                if b"device_plugin.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
            except OSError:  # it ended
                continue
        return 0

    def _add_host(self, number: int, devices: int) -> None:
        folder = self.root / f"gpu-{number}"
        table = folder / "nvml"
        table.mkdir(parents=True)
        host = Host(f"gpu-{number}", f"{self.prefix}{16 + number}", folder, FakeNvml(table))
        for index in range(devices):
            uuid = f"GPU-{number:04x}{index:04x}-0000-0000-0000-000000000000"
            host.nvml.add(uuid=uuid)
        self.hosts.append(host)

    def _leader(self) -> bool:
        try:
            return bool(self.get("/v1/status/leader"))
        except (AssertionError, OSError):  # it starts, or has no leader
            return False

    def _ready(self, devices: int) -> bool:
        nodes = [each for each in self.get("/v1/nodes") if each["Status"] == "ready"]
        return len(nodes) == len(self.hosts) and all(
            len(self.healthy(host)) == devices for host in self.hosts
        )

    def _agent(
        self, folder: Path, configuration: dict[str, Any], environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        file = folder / "config.json"
        file.write_text(json.dumps(configuration))
        with (folder / "agent.log").open("ab") as log:
            return subprocess.Popen(
                [self.nomad, "agent", f"-config={file}"],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _common(self, name: str, address: str, folder: Path) -> dict[str, Any]:
        return {
            "name": name,
            "data_dir": str(folder / "data"),
            "bind_addr": address,
            "advertise": {"http": address, "rpc": address, "serf": address},
            "disable_update_check": True,
        }

    def _server_configuration(self, folder: Path) -> dict[str, Any]:
        return {
            **self._common("server", f"{self.prefix}1", folder),
            "server": {"enabled": True, "bootstrap_expect": 1},
        }

    def _client_configuration(self, host: Host) -> dict[str, Any]:
        program = [sys.executable, str(SERVICE / "device_plugin.py"), "--vendor", "nvidia"]
        return {
            **self._common(host.name, host.address, host.folder),
            "plugin_dir": str(SERVICE / "plugin_dir"),
            "client": {
                "enabled": True,
                "servers": [f"{self.prefix}1:4647"],
                "network_interface": "lo",
                "cpu_total_compute": 100_000,
                "memory_total_mb": 100_000,
                "options": {
                    "driver.allowlist": "raw_exec",
                    "fingerprint.denylist": "env_aws,env_gce,env_azure,env_digitalocean",
                },
            },
            "plugin": [
                {"raw_exec": {"config": [{"enabled": True}]}},
                {"slipway-devices": {"args": [*program, "--record", str(host.record)]}},
            ],
        }


def _is_empty(host: Host) -> bool:
    """Whether no allocation has left a folder there."""
    folder = host.folder / "data/alloc"
    return not folder.exists() or not any(folder.iterdir())


def devices_of(allocation: dict[str, Any]) -> list[str]:
    tasks = (allocation["AllocatedResources"] or {"Tasks": {}})["Tasks"].values()
    return [uuid for task in tasks for each in task["Devices"] or [] for uuid in each["DeviceIDs"]]


def restarts(allocations: list[dict[str, Any]]) -> int:
    return sum(each["TaskStates"]["server"]["Restarts"] for each in allocations)


def _nomad() -> Path:
    """Where the other services' tests find it."""
    if folder := os.environ.get("SLIPWAY_TEST_BIN"):
        return Path(folder) / "nomad"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("SLIPWAY_CACHE") or caches / "slipway")
    found = sorted((cache / "tools/bin").glob("nomad-[0-9]*/nomad"))
    assert found, "`slipway tools --install` builds Nomad"
    return found[-1]


@contextmanager
def nomad_cluster(
    library: Path, root: Path, prefix: str, *, hosts: int, devices: int
) -> Iterator[NomadCluster]:
    """Every host has that many devices."""
    cluster = NomadCluster(_nomad(), library, root, prefix)
    try:
        cluster.start(hosts, devices)
        yield cluster
    finally:
        cluster.stop()
