"""A real Nomad server that validates jobs. It has no client and no Consul, so nothing runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
def nomad_agent(folder: Path, pools: list[str]) -> Iterator[httpx.Client]:
    """The server's API. ACLs are off; identities of workloads are set up as Slipway does."""
    identity = {"aud": ["consul.io"], "ttl": "1h"}
    configuration = {
        "bind_addr": ADDRESS,
        "advertise": {"http": ADDRESS, "rpc": ADDRESS, "serf": ADDRESS},
        "data_dir": str(folder / "data"),
        "disable_update_check": True,
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
    (folder / "agent.json").write_text(json.dumps(configuration))
    log = folder / "nomad.log"
    command = [str(find("nomad")), "agent", f"-config={folder / 'agent.json'}"]
    base = f"http://{ADDRESS}:4646"
    with (
        running(command, log) as process,
        httpx.Client(base_url=base, timeout=HANG_S, trust_env=False) as client,
    ):
        wait_for(client, "/v1/status/leader", process, log)
        for pool in pools:
            client.post(f"/v1/node/pool/{pool}", json={"Name": pool}).raise_for_status()
        yield client
