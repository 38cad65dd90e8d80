"""Streams go on while hosts lose their power, certificates are renewed and agents are upgraded.

bench/hosts_failover.py has the bars of the times.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.hosts.bed import Bed
from tests.hosts.environment import (
    Checkout,
    Stream,
    changed_code,
    environment,
    must_complete,
    streams,
)
from tests.hosts.failover import (
    CONSUL,
    EDGES,
    NOMAD,
    SERVERS,
    SETTINGS,
    SHARED,
    WORKERS,
    Lost,
    answers,
    endpoints,
    healthy,
    holder,
    lose_leader,
    lose_shared_address,
    lose_worker,
    pull_cable,
)
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**SERVERS, **WORKERS, **EDGES}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 2, "max": 2}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        made.slipway("up")
        yield made


def test_an_envoy_answers_on_every_edge_host(checkout: Checkout) -> None:
    for address in (*EDGES.values(), SHARED):
        must_complete(address)


@pytest.mark.parametrize("port", [CONSUL, NOMAD])
def test_without_the_leader_the_others_elect_another_and_streams_go_on(
    checkout: Checkout, hosts: Bed, port: int
) -> None:
    lost = lose_leader(checkout, hosts, port)
    assert lost.streamed.answers
    assert not lost.streamed.failed


def test_the_shared_address_moves_from_an_edge_host_that_dies(
    checkout: Checkout, hosts: Bed
) -> None:
    lost = lose_shared_address(hosts)
    assert not lost.streamed.failed
    until(lambda: answers(EDGES[lost.host]))
    (other,) = EDGES.keys() - {lost.host}
    assert holder(hosts) == other  # every move would end streams


def test_without_a_worker_its_endpoints_go_and_its_replicas_come_back_elsewhere(
    checkout: Checkout, hosts: Bed
) -> None:
    assert failed_later(lose_worker(checkout, hosts)) == []


def test_a_worker_whose_cable_is_out_is_used_again_once_it_is_back(
    checkout: Checkout, hosts: Bed
) -> None:
    lost = pull_cable(checkout, hosts)
    if len(endpoints(checkout)) > 1:  # otherwise both replicas were on this host
        assert failed_later(lost) == []


def failed_later(lost: Lost) -> list[Stream]:
    """Broken streams that began when no Envoy used the host any more."""
    return [each for each in lost.streamed.ended if each.failed and each.began_s > lost.noticed_s]


def test_every_certificate_is_renewed(checkout: Checkout) -> None:
    """By `up`, as if all were about to expire."""
    until(lambda: healthy(checkout))
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
    until(lambda: healthy(checkout))
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
    until(lambda: healthy(checkout))
    checkout.put("security", {"authorities": [2], "gossip_key": 2})
    with streams(SHARED) as streamed:
        checkout.slipway("up")
    assert {"consul-gossip-key", "nomad-gossip-key"} <= checkout.changed()
    assert len(streamed.answers) > 20
    assert not streamed.failed
    until(lambda: healthy(checkout))


def test_every_agent_is_upgraded(checkout: Checkout, hosts: Bed) -> None:
    """What an upgrade does: each agent restarts with another command or configuration."""
    until(lambda: healthy(checkout))
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
