"""The addresses and ports that an environment listens on, and the processes that use them now."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import Node, PlatformPlan, Server

# Standard ports of Consul and Nomad, besides those of their HTTP APIs.
SERVER_PORTS = {"Consul RPC": 8300, "Consul gossip": 8301, "Nomad RPC": 4647, "Nomad gossip": 4648}
CLIENT_PORTS = {"Consul gossip": 8301}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    purpose: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


def listeners(plan: PlatformPlan) -> Iterator[Listener]:
    """Every fixed port of a plan."""
    http = {"Consul HTTPS": plan.consul.port, "Nomad HTTPS": plan.nomad.port}
    keys = {"keys of workload identities": plan.workload_keys.port}
    for server in plan.servers:
        yield from _of_host(server, {**http, **keys, **SERVER_PORTS})
    for pool in plan.pools:
        for node in pool.hosts:
            yield from _of_host(node, {**http, **CLIENT_PORTS})
    for purpose, endpoint in _platform_endpoints(plan):
        yield Listener(purpose=purpose, address=endpoint.host, port=endpoint.port)


def _of_host(host: Server | Node, ports: Mapping[str, int]) -> Iterator[Listener]:
    for purpose, port in ports.items():
        yield Listener(purpose=f"{host.name}: {purpose}", address=host.address, port=port)


def _platform_endpoints(plan: PlatformPlan) -> Iterator[tuple[str, Endpoint]]:
    yield "supervisor", plan.node_agent.supervisor
    for envoy in plan.gateway.envoys:
        yield "gateway", envoy.listener
        yield "Envoy metrics", envoy.metrics
        yield "xDS", envoy.xds
        yield "xDS status", envoy.xds_http
    yield "Prometheus", plan.monitoring.prometheus
    yield "Autoscaler", plan.autoscaling.autoscaler


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


def in_use(among: Iterable[Listener]) -> dict[Listener, psutil.Process | None]:
    """The listeners that are taken, with the process that listens there: None where it cannot be
    seen, because it is another user's or has ended since."""
    taken = [listener for listener in among if not is_free(listener)]
    found = owners() if taken else {}
    return {listener: owner(listener, found) for listener in taken}


def owners() -> dict[tuple[str, int], psutil.Process]:
    """The listening processes by address and port: all of them for root, else only the user's
    own."""
    found = {}
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.pid:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(connection.pid)
                # An IPv6 socket shows its IPv4 address as a mapped one.
                address = connection.laddr.ip.removeprefix("::ffff:")
                found[address, connection.laddr.port] = process
    return found


def owner(
    listener: Listener, among: Mapping[tuple[str, int], psutil.Process]
) -> psutil.Process | None:
    """The process that listens there, or on that port at all addresses."""
    places = (listener.address, "0.0.0.0", "::")  # noqa: S104  (compared, not bound)
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
