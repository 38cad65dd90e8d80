"""The gateway on machines of their own: an Envoy on each, and the address that they share."""

from __future__ import annotations

from stacks.planning import make_plan
from tests.unit.plan.samples import hosts_inputs

HOSTS = [{"name": f"edge-{k}", "address": f"10.77.0.3{k}"} for k in (1, 2)]
CPU = {
    "kind": "metal",
    "hosts": [{"name": "worker-0", "address": "10.77.0.21"}],
    "memory": "16GiB",
    "cpu": 8,
}
EDGE = {"kind": "metal", "hosts": HOSTS, "memory": "4GiB", "cpu": 2}
POOLS = {"cpu": CPU, "edge": EDGE}


def test_every_edge_host_has_an_envoy_with_its_own_control_plane() -> None:
    envoys = make_plan(hosts_inputs(pools=POOLS)).gateway.envoys
    assert [envoy.listener.authority for envoy in envoys] == ["10.77.0.31:8080", "10.77.0.32:8080"]
    assert [envoy.xds.host for envoy in envoys] == ["10.77.0.31", "10.77.0.32"]


def test_an_added_edge_host_renames_no_job() -> None:
    one = make_plan(hosts_inputs(pools=POOLS | {"edge": EDGE | {"hosts": HOSTS[1:]}}))
    two = make_plan(hosts_inputs(pools=POOLS))
    assert one.gateway.envoys == two.gateway.envoys[1:]


def test_clients_use_the_shared_address_or_else_the_first_host() -> None:
    gateway = {"pool": "edge", "address": "10.77.0.30"}
    shared = make_plan(hosts_inputs(pools=POOLS, gateway=gateway)).gateway
    assert (shared.clients.url, shared.shared_address) == ("http://10.77.0.30:8080", "10.77.0.30")
    alone = make_plan(hosts_inputs(pools=POOLS)).gateway
    assert (alone.clients.url, alone.shared_address) == ("http://10.77.0.31:8080", "")


def test_consul_asks_for_keys_on_its_own_host_so_that_no_server_is_needed_for_them() -> None:
    assert make_plan(hosts_inputs()).workload_keys.url == "https://127.0.0.1:4645"
