"""Hosts of an environment that lose their power or their network, and what it takes to notice."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from cli import certificates
from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import Checkout, Streams, listed, streams
from tests.waiting import HANG_S, until

SERVERS = {f"server-{k}": f"{NETWORK}.1{1 + k}" for k in range(3)}
WORKERS = {f"worker-{k}": f"{NETWORK}.2{1 + k}" for k in range(2)}
EDGES = {f"edge-{k}": f"{NETWORK}.3{1 + k}" for k in range(2)}
POOLS = {
    "cpu": {"kind": "metal", "hosts": listed(WORKERS), "memory": "16GiB", "cpu": 8},
    "edge": {"kind": "metal", "hosts": listed(EDGES), "memory": "4GiB", "cpu": 2},
}
SHARED = f"{NETWORK}.30"  # the address that clients use
SETTINGS = {
    "servers": 3,
    "server_hosts": listed(SERVERS),
    "pools": POOLS,
    "gateway": {"pool": "edge", "address": SHARED},
}
CONSUL, NOMAD = 8501, 4646
HEALTHY = "healthy"


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Moments of the monotonic clock: the loss, and when the others had noticed. `streamed` are the
    streams meanwhile."""

    host: str
    lost_s: float
    noticed_s: float
    back_s: float = 0.0  # as many replicas as before
    streamed: Streams

    @property
    def took_s(self) -> float:
        return self.noticed_s - self.lost_s


def lose_leader(checkout: Checkout, hosts: Bed, port: int) -> Lost:
    """Returns when the host is back."""
    until(lambda: healthy(checkout))
    killed = leader(checkout, port, SERVERS)
    assert killed is not None
    others = {name: address for name, address in SERVERS.items() if name != killed}
    with streams(SHARED) as streamed:
        lost_s = time.monotonic()
        hosts.hosts[killed].end()
        until(lambda: leader(checkout, port, others) not in (None, killed))
        noticed_s = time.monotonic()
    _start_again(hosts, killed)
    until(lambda: healthy(checkout))
    return Lost(host=killed, lost_s=lost_s, noticed_s=noticed_s, streamed=streamed)


def lose_shared_address(hosts: Bed, *, asked_for_s: float = HANG_S) -> Lost:
    """A look at the address is given up after `asked_for_s`."""
    killed = until(lambda: holder(hosts))
    (other,) = EDGES.keys() - {killed}
    with streams(EDGES[other]) as streamed:
        lost_s = time.monotonic()
        hosts.hosts[killed].end()
        until(lambda: answers(SHARED, asked_for_s))
        noticed_s = time.monotonic()
    _start_again(hosts, killed)
    return Lost(host=killed, lost_s=lost_s, noticed_s=noticed_s, streamed=streamed)


def lose_worker(checkout: Checkout, hosts: Bed) -> Lost:
    """Its replicas come back elsewhere; returns when the host is back."""
    until(lambda: healthy(checkout))
    killed, dead = next(iter(WORKERS.items()))
    until(lambda: {*endpoints(checkout)} == {*WORKERS.values()})
    # A leader that was elected a moment ago waits five minutes for a node that it never heard of.
    until(lambda: has_just_reported(checkout, dead))
    with streams(SHARED) as streamed:
        until(lambda: len(streamed.answers) > 8)
        lost_s = time.monotonic()
        hosts.hosts[killed].end()
        until(lambda: is_out(checkout, dead))
        noticed_s = time.monotonic()
        until(lambda: replicas_without(checkout, dead) == 2)
        back_s = time.monotonic()
    _start_again(hosts, killed)
    until(lambda: ready_nodes(checkout) == len(WORKERS) + len(EDGES))
    return Lost(host=killed, lost_s=lost_s, noticed_s=noticed_s, back_s=back_s, streamed=streamed)


def pull_cable(checkout: Checkout, hosts: Bed) -> Lost:
    """Of a worker; returns when it is used again."""
    until(lambda: len(endpoints(checkout)) > 0)
    dead = next(iter(endpoints(checkout)))
    cut = next(name for name, address in WORKERS.items() if address == dead)
    with streams(SHARED) as streamed:
        until(lambda: len(streamed.answers) > 8)
        lost_s = time.monotonic()
        hosts.disconnect(cut)
        until(lambda: is_out(checkout, dead))
        noticed_s = time.monotonic()
        hosts.connect_again(cut)
        until(lambda: endpoints(checkout).get(dead) == HEALTHY)
    return Lost(host=cut, lost_s=lost_s, noticed_s=noticed_s, streamed=streamed)


def is_out(checkout: Checkout, worker: str) -> bool:
    """Whether no Envoy uses its endpoints."""
    return all(endpoints(checkout, edge).get(worker) != HEALTHY for edge in EDGES.values())


def _start_again(hosts: Bed, host: str) -> None:
    hosts.start(host, same_disk=True)
    hosts.wait_until_ready()


def leader(checkout: Checkout, port: int, asked: Mapping[str, str]) -> str | None:
    """The host that leads, by the first of these servers that knows; None while none does."""
    for address in asked.values():
        try:
            found = checkout.ask(f"https://{address}:{port}/v1/status/leader")
        except httpx.HTTPError:
            continue
        if found:
            return next(name for name, host in SERVERS.items() if host == found.split(":")[0])
    return None


def healthy(checkout: Checkout) -> bool:
    """Both clusters have all of their servers."""
    for port in (CONSUL, NOMAD):
        address = next(iter(SERVERS.values()))
        try:
            said = checkout.ask(f"https://{address}:{port}/v1/operator/autopilot/health")
        except httpx.HTTPError:
            return False
        if not said["Healthy"] or len(said["Servers"]) != len(SERVERS):
            return False
    return True


def holder(hosts: Bed) -> str | None:
    """The edge host that has the shared address."""
    for name in EDGES:
        if f" {SHARED}/" in hosts.hosts[name].ssh("ip -4 -oneline address show dev eth0"):
            return name
    return None


def answers(address: str, asked_for_s: float = HANG_S) -> bool:
    try:
        return httpx.get(f"http://{address}:8080/healthz", timeout=asked_for_s).status_code == 200
    except httpx.HTTPError:
        return False


def endpoints(checkout: Checkout, edge: str = EDGES["edge-0"]) -> dict[str, str]:
    """The model's endpoints as this host's Envoy sees them: address -> its health flags."""
    operator = certificates.platform(checkout.folder / ".slipway/access/hosts/operator")
    text = httpx.get(f"https://{edge}:9901/clusters", verify=operator).raise_for_status().text
    flags = re.findall(
        r"^model-sim-a\S*-openai::(\S+?):\d+::health_flags::(\S+)$", text, re.MULTILINE
    )
    return dict(flags)


def replicas_without(checkout: Checkout, dead: str) -> int:
    """Those on other hosts that pass their checks."""
    address = next(iter(SERVERS.values()))
    url = f"https://{address}:{CONSUL}/v1"
    names = [name for name in checkout.ask(f"{url}/catalog/services") if name.endswith("-openai")]
    found = [
        each
        for name in names
        for each in checkout.ask(f"{url}/health/service/{name}?passing=1")
        if each["Service"]["Address"] != dead
    ]
    return len(found)


def has_just_reported(checkout: Checkout, worker: str) -> bool:
    """Whether Nomad's leader has heard of the node within the last second."""
    client = checkout.ask(f"https://{worker}:{NOMAD}/v1/agent/self")["stats"]["client"]
    return re.fullmatch(r"[\d.]+[mµn]s", client["last_heartbeat"]) is not None


def ready_nodes(checkout: Checkout) -> int:
    address = next(iter(SERVERS.values()))
    nodes = checkout.ask(f"https://{address}:{NOMAD}/v1/nodes")
    return [node["Status"] for node in nodes].count("ready")
