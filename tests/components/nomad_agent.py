"""A real Nomad server that validates jobs. It has no client and no Consul, so nothing runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.binaries import find
from tests.waiting import HANG_S, until

ADDRESS = "127.98.0.1"


@contextmanager
def running(
    command: list[str], log: Path, *, folder: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, started in `folder`, ended by its id when the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=output,
            env=os.environ | environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(
    client: httpx.Client, path: str, process: subprocess.Popen[bytes], log: Path
) -> httpx.Response:
    """The first good answer of a GET that says something. Fails with the end of the log."""

    def answer() -> httpx.Response | None:
        code = process.poll()
        assert code is None, f"exit {code}:\n{log.read_text()[-3000:]}"
        try:
            response = client.get(path)
        except httpx.TransportError:
            return None
        return response if response.is_success and response.text != '""' else None

    return until(answer, f"an answer of {path}", log=log)


@contextmanager
def started_agent(
    folder: Path, address: str, configuration: dict[str, Any], **variables: str
) -> Iterator[httpx.Client]:
    """An agent at an address of its own, and its API once its cluster has a leader."""
    folder.mkdir(exist_ok=True)
    file, log = folder / "agent.json", folder / "nomad.log"
    common = {
        "bind_addr": address,
        "advertise": {"http": address, "rpc": address, "serf": address},
        "data_dir": str(folder / "data"),
        "disable_update_check": True,
    }
    file.write_text(json.dumps(common | configuration))
    command = [str(find("nomad")), "agent", f"-config={file}"]
    base = f"http://{address}:4646"
    with (
        running(command, log, **variables) as process,
        httpx.Client(base_url=base, timeout=HANG_S, trust_env=False) as client,
    ):
        wait_for(client, "/v1/status/leader", process, log)
        yield client


@contextmanager
def nomad_agent(folder: Path, pools: list[str]) -> Iterator[httpx.Client]:
    """The server's API. ACLs are off; identities of workloads are set up as Slipway does."""
    identity = {"aud": ["consul.io"], "ttl": "1h"}
    configuration = {
        "server": {"enabled": True, "bootstrap_expect": 1},
        "consul": {
            "address": "127.98.0.2:8500",  # nobody is there
            "client_auto_join": False,
            "server_auto_join": False,
            "auto_advertise": False,
            "service_identity": identity,
            "task_identity": identity,
        },
    }
    with started_agent(folder, ADDRESS, configuration) as client:
        for pool in pools:
            client.post(f"/v1/node/pool/{pool}", json={"Name": pool}).raise_for_status()
        yield client
