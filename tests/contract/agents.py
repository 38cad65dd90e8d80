"""A real Consul and a real Nomad agent for the contract tests, with ACLs on."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import HANG_S, until
from tests.workers import WORKER

CONSUL_ADDRESS = f"127.91.{WORKER}.1"
NOMAD_ADDRESS = f"127.91.{WORKER}.2"
MANAGEMENT_TOKEN = "7d5a1b1e-0000-4000-8000-00000000c0de"
# Asking clouds for metadata costs seconds, and stops the client where AWS_CA_BUNDLE is set.
CLOUD_FINGERPRINTS = "env_aws,env_azure,env_digitalocean,env_gce,cni,vault,consul"


@dataclass(frozen=True)
class Agent:
    """The HTTP API of a running agent."""

    address: str
    token_header: str
    token: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer; raises urllib.error.HTTPError for anything but success."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {self.token_header: self.token}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=HANG_S) as response:
            content = response.read()
        return json.loads(content) if content.strip() else None

    def status(self, path: str) -> int:
        """The HTTP status of a GET."""
        try:
            self.call("GET", path)
        except urllib.error.HTTPError as problem:
            return problem.code
        return 200


@contextmanager
def _running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, ended by its id when the block ends."""
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_ready(agent: Agent, path: str, process: subprocess.Popen[bytes]) -> None:
    def ready() -> bool:
        assert process.poll() is None, f"the agent of {agent.address} has ended"
        with suppress(OSError):
            return bool(agent.call("GET", path))
        return False

    until(ready, f"{path} of {agent.address}")


@contextmanager
def consul_agent(binary: Path, folder: Path, *, authority: Path | None = None) -> Iterator[Agent]:
    """A Consul server in development mode, alone in its datacenter.

    Args:
        authority: a folder of certificates (tests/contract/authority.py). The server then answers
            at port 8501 as well, over TLS and to clients with a certificate only.
    """
    config: dict[str, Any] = {
        "acl": {
            "enabled": True,
            "default_policy": "deny",
            "tokens": {"initial_management": MANAGEMENT_TOKEN},
        },
        "ports": {"dns": -1, "grpc": -1, "grpc_tls": -1},
    }
    if authority is not None:
        config["ports"] |= {"https": 8501}
        files = {"ca_file": "ca.pem", "cert_file": "server.pem", "key_file": "server-key.pem"}
        https = {setting: str(authority / name) for setting, name in files.items()}
        config["tls"] = {"https": {**https, "verify_incoming": True}}
    (folder / "consul.json").write_text(json.dumps(config))
    command = [str(binary), "agent", "-dev", f"-bind={CONSUL_ADDRESS}"]
    command += [f"-client={CONSUL_ADDRESS}", f"-config-file={folder / 'consul.json'}"]
    agent = Agent(f"http://{CONSUL_ADDRESS}:8500", "X-Consul-Token", MANAGEMENT_TOKEN)
    with _running(command, folder) as process:
        _wait_until_ready(agent, "/v1/status/leader", process)
        _wait_until_ready(agent, "/v1/acl/token/self", process)
        yield agent


@contextmanager
def nomad_agent(binary: Path, folder: Path) -> Iterator[Agent]:
    """A Nomad server and client in development mode; raw_exec tasks only."""
    config = {
        "bind_addr": NOMAD_ADDRESS,
        "acl": {"enabled": True},
        "client": {
            "cpu_total_compute": 4000,
            "memory_total_mb": 4096,
            "options": {"fingerprint.denylist": CLOUD_FINGERPRINTS},
        },
        "consul": {"server_auto_join": False, "client_auto_join": False, "auto_advertise": False},
        "plugin": {"raw_exec": {"config": {"enabled": True}}},
    }
    (folder / "nomad.json").write_text(json.dumps(config))
    command = [str(binary), "agent", "-dev", f"-config={folder / 'nomad.json'}"]
    command += [f"-data-dir={folder / 'data'}"]
    agent = Agent(f"http://{NOMAD_ADDRESS}:4646", "X-Nomad-Token", MANAGEMENT_TOKEN)
    try:
        with _running(command, folder) as process:
            _wait_until_ready(agent, "/v1/status/leader", process)
            agent.call("POST", "/v1/acl/bootstrap", {"BootstrapSecret": MANAGEMENT_TOKEN})
            _wait_until_ready(agent, "/v1/nodes", process)
            yield agent
    finally:
        _unmount_below(folder)


def _unmount_below(folder: Path) -> None:
    """Unmount the secrets folders of tasks, which outlive an agent that runs as root."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in (mount.replace("\\040", " ") for mount in mounts):
        if mount.startswith(f"{folder}/"):
            subprocess.run(["umount", mount], check=False, timeout=HANG_S)
