"""Streams go on while hosts lose their power, certificates are renewed and agents are upgraded."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from cli import certificates
from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import Checkout, Streams, environment, listed, must_complete, streams

pytestmark = [pytest.mark.hosts, pytest.mark.soak, pytest.mark.timeout(900)]

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
NEW_LEADER_S = 10
ADDRESS_MOVES_S = 3
ENDPOINTS_OUT_S = 5


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**SERVERS, **WORKERS, **EDGES}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 2, "max": 2}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        made.slipway("up")
        yield made


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


def until(seen: Callable[[], Any], within_s: float) -> float:
    """The seconds until it is true; fails after `within_s`."""
    started = time.monotonic()
    while not seen():
        assert time.monotonic() - started < within_s, seen.__doc__ or "it did not happen in time"
        time.sleep(0.05)  # what others see sends no event
    return time.monotonic() - started


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


def test_an_envoy_answers_on_every_edge_host(checkout: Checkout) -> None:
    for address in (*EDGES.values(), SHARED):
        must_complete(address)


@pytest.mark.parametrize("port", [CONSUL, NOMAD])
def test_without_the_leader_the_others_elect_another_and_streams_go_on(
    checkout: Checkout, hosts: Bed, record_property: Callable[[str, object], None], port: int
) -> None:
    until(lambda: healthy(checkout), within_s=60)
    killed = leader(checkout, port, SERVERS)
    assert killed is not None
    others = {name: address for name, address in SERVERS.items() if name != killed}
    with streams(SHARED) as streamed:
        hosts.hosts[killed].end()
        took_s = until(
            lambda: leader(checkout, port, others) not in (None, killed), within_s=NEW_LEADER_S
        )
    record_property("new_leader_s", round(took_s, 1))
    assert streamed.answers
    assert not streamed.failed
    hosts.start(killed, same_disk=True)
    hosts.wait_until_ready()
    until(lambda: healthy(checkout), within_s=60)


def holder(hosts: Bed) -> str | None:
    """The edge host that has the shared address."""
    for name in EDGES:
        if f" {SHARED}/" in hosts.hosts[name].ssh("ip -4 -oneline address show dev eth0"):
            return name
    return None


def answers(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}:8080/healthz", timeout=0.5).status_code == 200
    except httpx.HTTPError:
        return False


def test_the_shared_address_moves_from_an_edge_host_that_dies(
    checkout: Checkout, hosts: Bed, record_property: Callable[[str, object], None]
) -> None:
    until(lambda: holder(hosts), within_s=10)
    killed = holder(hosts)
    assert killed is not None
    (other,) = EDGES.keys() - {killed}
    with streams(EDGES[other]) as streamed:
        hosts.hosts[killed].end()
        took_s = until(lambda: answers(SHARED), within_s=ADDRESS_MOVES_S)
    record_property("address_moves_s", round(took_s, 1))
    assert not streamed.failed
    hosts.start(killed, same_disk=True)
    hosts.wait_until_ready()
    until(lambda: answers(EDGES[killed]), within_s=60)
    assert holder(hosts) == other  # every move would end streams


def endpoints(checkout: Checkout) -> dict[str, str]:
    """The model's endpoints as an Envoy sees them: address -> its health flags."""
    edge = next(iter(EDGES.values()))
    operator = certificates.platform(checkout.folder / ".slipway/access/hosts/operator")
    text = httpx.get(f"https://{edge}:9901/clusters", verify=operator).raise_for_status().text
    flags = re.findall(
        r"^model-sim-a\S*-openai::(\S+?):\d+::health_flags::(\S+)$", text, re.MULTILINE
    )
    return dict(flags)


def test_without_a_worker_its_endpoints_go_and_its_replicas_come_back_elsewhere(
    checkout: Checkout, hosts: Bed, record_property: Callable[[str, object], None]
) -> None:
    until(lambda: healthy(checkout), within_s=60)
    killed, dead = next(iter(WORKERS.items()))
    until(lambda: {*endpoints(checkout)} == {*WORKERS.values()}, within_s=60)
    # A leader that was elected a moment ago waits five minutes for a node that it never heard of.
    until(lambda: has_just_reported(checkout, dead), within_s=90)
    with streams(SHARED) as streamed:
        until(lambda: len(streamed.answers) > 8, within_s=30)
        died_s = time.monotonic()
        hosts.hosts[killed].end()
        out_s = until(lambda: endpoints(checkout).get(dead) != HEALTHY, within_s=ENDPOINTS_OUT_S)
        back_s = until(lambda: replicas_without(checkout, dead) == 2, within_s=120)
    record_property("endpoints_out_s, power", round(out_s, 1))
    record_property("replicas_back_s", round(back_s, 1))
    only_the_dead_hosts_streams_failed(streamed, died_s, out_s)
    hosts.start(killed, same_disk=True)
    hosts.wait_until_ready()
    until(lambda: ready_nodes(checkout) == len(WORKERS) + len(EDGES), within_s=90)


def test_a_worker_whose_cable_is_out_is_used_again_once_it_is_back(
    checkout: Checkout, hosts: Bed, record_property: Callable[[str, object], None]
) -> None:
    until(lambda: len(endpoints(checkout)) > 0, within_s=60)
    dead = next(iter(endpoints(checkout)))
    cut = next(name for name, address in WORKERS.items() if address == dead)
    with streams(SHARED) as streamed:
        until(lambda: len(streamed.answers) > 8, within_s=30)
        died_s = time.monotonic()
        hosts.disconnect(cut)
        out_s = until(lambda: endpoints(checkout).get(dead) != HEALTHY, within_s=ENDPOINTS_OUT_S)
        hosts.connect_again(cut)
        until(lambda: endpoints(checkout).get(dead) == HEALTHY, within_s=60)
    record_property("endpoints_out_s, cable", round(out_s, 1))
    if len(endpoints(checkout)) > 1:  # otherwise both replicas were on this host
        only_the_dead_hosts_streams_failed(streamed, died_s, out_s)


HEALTHY = "healthy"


def only_the_dead_hosts_streams_failed(streamed: Streams, died_s: float, out_s: float) -> None:
    """What may have begun there fails, and no client waits for it."""
    broken = [each for each in streamed.ended if each.failed]
    assert not [each for each in broken if each.began_s > died_s + out_s]
    assert not [each for each in broken if each.ended_s > died_s + ENDPOINTS_OUT_S + 1]


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


def test_every_certificate_is_renewed(checkout: Checkout) -> None:
    """By `up`, as if all were about to expire."""
    until(lambda: healthy(checkout), within_s=60)
    served = [(address, CONSUL) for address in (*SERVERS.values(), *WORKERS.values())]
    served += [(address, NOMAD) for address in (*SERVERS.values(), *EDGES.values())]
    before = {place: ssl.get_server_certificate(place) for place in served}
    with (
        changed_code(
            checkout,
            "components/certificates/component.py",
            "RENEWED_DAYS_BEFORE = 120",
            "RENEWED_DAYS_BEFORE = 366",
        ),
        streams(SHARED) as streamed,
    ):
        checkout.slipway("up")
    renewed = {name for name in checkout.changed() if name.startswith("certificate-")}
    assert {f"certificate-host-{name}" for name in (*SERVERS, *WORKERS, *EDGES)} <= renewed
    assert len(streamed.answers) > 20
    assert not streamed.failed
    for place, certificate in before.items():
        assert ssl.get_server_certificate(place) != certificate, place


@pytest.mark.parametrize("authorities", [[1, 2], [2, 1], [2]], ids=str)
def test_another_authority_takes_over(checkout: Checkout, authorities: list[int]) -> None:
    until(lambda: healthy(checkout), within_s=60)
    checkout.put("security", {"authorities": authorities})
    with streams(SHARED) as streamed:
        checkout.slipway("up")
    assert len(streamed.answers) > 20
    assert not streamed.failed
    assert signer(SERVERS["server-0"]) == ("authority" if authorities[0] == 1 else "authority-2")


def signer(address: str) -> str:
    certificate = x509.load_pem_x509_certificate(
        ssl.get_server_certificate((address, CONSUL)).encode()
    )
    return str(certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def test_the_gossip_key_is_replaced(checkout: Checkout) -> None:
    until(lambda: healthy(checkout), within_s=60)
    checkout.put("security", {"authorities": [2], "gossip_key": 2})
    with streams(SHARED) as streamed:
        checkout.slipway("up")
    assert {"consul-gossip-key", "nomad-gossip-key"} <= checkout.changed()
    assert len(streamed.answers) > 20
    assert not streamed.failed
    until(lambda: healthy(checkout), within_s=60)


def test_every_agent_is_upgraded(checkout: Checkout, hosts: Bed) -> None:
    """What an upgrade does: each agent restarts with another command or configuration."""
    until(lambda: healthy(checkout), within_s=60)
    agents = {name: ["consul", "nomad"] for name in (*SERVERS, *WORKERS, *EDGES)}
    before = {name: started(hosts, name, units) for name, units in agents.items()}
    with (
        changed_code(
            checkout,
            "components/consul/agent_config.py",
            '"prometheus_retention_time": "5m"',
            '"prometheus_retention_time": "6m"',
        ),
        changed_code(
            checkout,
            "components/nomad/agent_config.py",
            '"collection_interval": "5s"',
            '"collection_interval": "6s"',
        ),
        streams(SHARED) as streamed,
    ):
        checkout.slipway("up")
    after = {name: started(hosts, name, units) for name, units in agents.items()}
    assert len(streamed.answers) > 20
    assert not streamed.failed
    for name in agents:
        assert not before[name] & after[name], name


def started(hosts: Bed, host: str, agents: list[str]) -> set[str]:
    """The process ids of these agents."""
    units = " ".join(f"slipway-hosts-{agent}" for agent in agents)
    return set(hosts.hosts[host].ssh(f"systemctl show --property=MainPID --value {units}").split())


@contextmanager
def changed_code(checkout: Checkout, file: str, before: str, after: str) -> Iterator[None]:
    """The checkout as a later version of the project."""
    path = checkout.folder / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    try:
        yield
    finally:
        path.write_text(text)
