"""A real Consul agent in development mode, in which the gateways of this checkout find routes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.gateway.processes import last_lines, running

READY_S = 30.0


class Consul:
    """`url` is that of its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=f"{url}/v1/", timeout=30)

    def put_route(self, document: Mapping[str, Any]) -> None:
        self._put(f"kv/slipway/routes/{document['model']}", document)

    def register(self, service: str, address: str, port: int) -> None:
        """One healthy instance of a service, on a node of the service's own: whatever changes on a
        node wakes those who watch any of its services."""
        check = _check(service, address, port, passing=True)
        instance = {
            "Service": service,
            "Address": address,
            "Port": port,
            "ID": check["ServiceID"],
            "Meta": {"replica": replica_name(address)},
        }
        document = {"Node": f"node-{service}", "Address": address}
        self._put("catalog/register", {**document, "Service": instance, "Check": check})

    def set_health(self, service: str, address: str, port: int, *, passing: bool) -> None:
        """As an agent does after a check: the node and the service are left alone."""
        document = {
            "Node": f"node-{service}",
            "SkipNodeUpdate": True,
            "Check": _check(service, address, port, passing=passing),
        }
        self._put("catalog/register", document)

    def has_leader(self) -> bool:
        try:
            return bool(self._client.get("status/leader").json())
        except (httpx.TransportError, ValueError):
            return False

    def _put(self, path: str, document: Mapping[str, Any]) -> None:
        self._client.put(path, content=json.dumps(document)).raise_for_status()


def replica_name(address: str) -> str:
    """As Nomad names allocations; by it keys are placed, and weights are kept."""
    return f"model-peers-1.replica[{address.rpartition('.')[2]}]"


def _check(service: str, address: str, port: int, *, passing: bool) -> dict[str, str]:
    name = f"{service}-{address}-{port}"
    return {
        "CheckID": f"check-{name}",
        "Name": "as told",
        "ServiceID": name,
        "Status": "passing" if passing else "critical",
        "Output": "as told",
    }


@contextmanager
def consul(program: Path, host: str, folder: Path) -> Iterator[Consul]:
    """An empty agent with a leader, and with its usual ports on an address of its own."""
    config, log = folder / "consul.json", folder / "consul.log"
    closed = ("dns", "grpc", "grpc_tls", "serf_wan")
    # By default 200 connections of one client, where the control plane keeps one for each service.
    limits = {"http_max_conns_per_client": 10_000}
    config.write_text(json.dumps({"ports": dict.fromkeys(closed, -1), "limits": limits}))
    command: list[str | Path] = [
        program,
        "agent",
        "-dev",
        "-log-level=warn",
        f"-bind={host}",
        f"-client={host}",
    ]
    with running([*command, f"-config-file={config}"], log=log) as process:
        agent = Consul(f"http://{host}:8500")
        deadline_s = time.monotonic() + READY_S
        while not agent.has_leader():
            if time.monotonic() > deadline_s or process.poll() is not None:
                raise SystemExit(f"Consul has no leader:\n{last_lines(log)}")
            time.sleep(0.1)
        yield agent
