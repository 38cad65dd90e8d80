"""The addresses and ports an environment will listen on, and who has them now."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from slipway.plan.platform import PlatformPlan

# Consul's and Nomad's standard ports: every agent has an address of its own.
SERVER_PORTS = {
    "Consul HTTP": 8500,
    "Consul RPC": 8300,
    "Consul gossip": 8301,
    "Nomad HTTP": 4646,
    "Nomad RPC": 4647,
    "Nomad gossip": 4648,
}
CLIENT_PORTS = {"Consul HTTP": 8500, "Consul gossip": 8301, "Nomad HTTP": 4646}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    purpose: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


def listeners(plan: PlatformPlan) -> Iterator[Listener]:
    """Every fixed port of a plan."""
    for server in plan.servers:
        for purpose, port in SERVER_PORTS.items():
            yield Listener(purpose=f"{server.name}: {purpose}", address=server.address, port=port)
    for pool in plan.pools:
        for node in pool.nodes:
            for purpose, port in CLIENT_PORTS.items():
                yield Listener(purpose=f"{node.name}: {purpose}", address=node.address, port=port)
    gateway, agent = plan.gateway, plan.node_agent
    for purpose, address, port in (
        ("supervisor", agent.supervisor_address, agent.supervisor_port),
        ("gateway", gateway.address, gateway.port),
        ("Envoy admin", gateway.address, gateway.admin_port),
        ("xDS", gateway.address, gateway.xds_port),
        ("xDS status", gateway.address, gateway.xds_metrics_port),
        ("Prometheus", plan.monitoring.address, plan.monitoring.port),
        ("Autoscaler", plan.autoscaling.address, plan.autoscaling.port),
    ):
        yield Listener(purpose=purpose, address=address, port=port)


def is_free(listener: Listener) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listener.address, listener.port))
            probe.listen(1)
        except OSError:
            return False
    return True


def owners() -> dict[tuple[str, int], psutil.Process]:
    """Who listens where: all processes for root, else the user's own."""
    found = {}
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.pid:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(connection.pid)
                # A server on an IPv6 socket shows its IPv4 address mapped.
                address = connection.laddr.ip.removeprefix("::ffff:")
                found[address, connection.laddr.port] = process
    return found


def owner(
    listener: Listener, among: Mapping[tuple[str, int], psutil.Process]
) -> psutil.Process | None:
    """Who listens there, or on that port of every address."""
    places = (listener.address, "0.0.0.0", "::")  # noqa: S104  (looked for, not bound)
    return next(
        (among[place, listener.port] for place in places if (place, listener.port) in among), None
    )


def belongs_to(process: psutil.Process, run: Path) -> bool:
    """Whether a process is part of the environment whose run folder this is."""
    try:
        places = [process.cwd(), *process.cmdline(), *process.environ().values()]
    except psutil.Error:
        return False
    # Whole names: `.slipway/dev` is not in `.slipway/dev2/nodes`.
    return any(f"{run}/" in f"{place}/" for place in places)
