"""Where the operator's machine finds what runs elsewhere."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from components.certificates import identities
from slipway.config.errors import ConfigError
from slipway.plan.platform import PlatformPlan
from slipway.planner.operator import derived_address
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_plan, hosts_inputs

UPPER_HALF = IPv4Network("127.128.0.0/9")


def planned(**changes: Any) -> PlatformPlan:
    return make_plan(hosts_inputs(**changes))


def test_on_one_machine_everything_is_asked_where_it_listens() -> None:
    plan = dev_plan()
    seen = plan.operator
    assert not seen.forwarded
    assert (seen.consul, seen.nomad) == (plan.consul, plan.nomad)
    assert seen.prometheus == plan.monitoring.prometheus
    assert [each.listener for each in seen.envoys] == [e.listener for e in plan.gateway.envoys]


def test_other_machines_are_asked_on_loopback_by_the_names_in_their_certificates() -> None:
    plan = planned()
    seen = plan.operator
    assert seen.forwarded
    (envoy,), (planned_envoy,) = seen.envoys, plan.gateway.envoys
    asked = (seen.consul, seen.nomad, seen.prometheus, envoy.metrics, envoy.xds_http)
    assert {IPv4Address(each.host) in UPPER_HALF for each in asked} == {True}
    server = identities.server(plan, plan.servers[0])
    assert {seen.consul.server_name, seen.nomad.server_name} <= set(server.dns_names)
    assert seen.prometheus.server_name in identities.prometheus(plan, "prometheus").dns_names
    assert envoy.metrics.server_name in identities.gateway(plan, planned_envoy).dns_names
    assert envoy.xds_http.server_name in identities.control_plane(planned_envoy).dns_names


def test_every_envoy_has_an_address() -> None:
    edges = [{"name": f"edge-{k}", "address": f"10.77.0.3{k}"} for k in range(3)]
    cpu = {"kind": "metal", "hosts": [{"name": "worker-0", "address": "10.77.0.21"}]}
    room = {"memory": "16GiB", "cpu": 8}
    pools = {"cpu": cpu | room, "edge": {"kind": "metal", "hosts": edges} | room}
    envoys = planned(pools=pools).operator.envoys
    assert len({each.listener.authority for each in envoys}) == 3


def test_environments_have_different_addresses_and_every_operator_the_same() -> None:
    names = ["hosts", "metal", "staging", "production"]
    assert len({derived_address(name) for name in names}) == len(names)
    assert derived_address("hosts") == "127.207.138.1"


def test_the_address_can_be_chosen() -> None:
    ssh = {"known_hosts": "known_hosts", "local_address": "127.200.0.1"}
    assert planned(ssh=ssh).operator.nomad.authority == "127.200.0.1:4646"


@pytest.mark.parametrize("address", ["10.0.0.1", "localhost", "128.0.0.1", ""])
def test_an_address_of_another_machine_is_refused(address: str) -> None:
    ssh = {"known_hosts": "known_hosts", "local_address": address}
    with pytest.raises(ConfigError, match=r"slipway:ssh\.local_address.*127\.0\.0\.0/8"):
        planned(ssh=ssh)


def test_a_forwarded_api_stands_for_every_server() -> None:
    servers = [{"name": f"server-{k}", "address": f"10.77.0.1{k}"} for k in range(3)]
    plan = planned(servers=3, server_hosts=servers)
    assert plan.servers_of(plan.operator.consul) == (plan.operator.consul,)
    here = dev_plan(servers=3)
    assert [each.host for each in here.servers_of(here.operator.nomad)] == [
        server.address for server in here.servers
    ]
