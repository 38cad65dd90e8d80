from __future__ import annotations

from pathlib import Path

import pytest

from slipway.config.environment import DevSettings, parse_environment
from slipway.planner.addresses import FIRST_PORT, LAST_PORT, Layout, lay_out


def _layout(pools: dict[str, dict[str, object]], **changes: object) -> Layout:
    values = {
        "target": "dev",
        "network": {"cidr": "127.77.0.0/24"},
        "pools": pools,
        "models": {},
        "gateway": {"pool": next(iter(pools))},
    } | changes
    environment = parse_environment(values, name="dev", source="Pulumi.dev.yaml")
    assert isinstance(environment.settings, DevSettings)
    return lay_out(environment.settings, environment.origin)


def _pool(nodes: int, **settings: object) -> dict[str, object]:
    return {"kind": "local", "nodes": nodes, **settings}


def test_hosts_stand_where_the_contract_says() -> None:
    layout = _layout({"edge": _pool(1), "cpu": _pool(2)}, servers=3)
    assert [server.address for server in layout.servers] == [
        "127.77.0.1",
        "127.77.0.2",
        "127.77.0.3",
    ]
    assert [node.address for node in layout.nodes["cpu"]] == ["127.77.0.16", "127.77.0.17"]
    assert [node.address for node in layout.nodes["edge"]] == ["127.77.0.32"]
    assert [node.name for node in layout.nodes["cpu"]] == ["cpu-0", "cpu-1"]


def test_the_largest_environment_has_an_address_for_every_node() -> None:
    layout = _layout({f"p{letter}": _pool(16) for letter in "abcdefghijklmno"}, servers=3)
    assert not layout.problems
    nodes = [node for pool in layout.nodes.values() for node in pool]
    addresses = {node.address for node in nodes} | {server.address for server in layout.servers}
    assert len(addresses) == 15 * 16 + 3


def test_every_node_hands_out_all_ports_below_the_ephemeral_ones() -> None:
    layout = _layout({"cpu": _pool(2), "edge": _pool(1)})
    nodes = [node for pool in layout.nodes.values() for node in pool]
    assert {(n.min_dynamic_port, n.max_dynamic_port) for n in nodes} == {(FIRST_PORT, LAST_PORT)}
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert int(ephemeral[0]) > LAST_PORT


def test_a_further_node_or_a_later_pool_moves_nobody() -> None:
    small = _layout({"cpu": _pool(1), "edge": _pool(1)})
    large = _layout({"cpu": _pool(5), "edge": _pool(2), "far": _pool(3)})
    assert large.nodes["cpu"][:1] == small.nodes["cpu"]
    assert large.nodes["edge"][:1] == small.nodes["edge"]


def test_a_pool_can_state_its_first_address() -> None:
    layout = _layout({"cpu": _pool(2, first_address="127.77.0.200"), "edge": _pool(1)})
    assert [node.address for node in layout.nodes["cpu"]] == ["127.77.0.200", "127.77.0.201"]
    assert [node.address for node in layout.nodes["edge"]] == ["127.77.0.32"]


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("127.78.0.1", "outside the network"),
        ("127.77.0.255", "outside the network"),
        ("127.77.0.1", "where server-0 is"),
        ("127.77.0.17", "where cpu-1 is"),
        ("here", "not an IPv4 address"),
    ],
)
def test_an_address_that_cannot_be_is_refused(first: str, message: str) -> None:
    layout = _layout({"cpu": _pool(2), "edge": _pool(2, first_address=first)})
    assert any(message in problem.message for problem in layout.problems)
    for problem in layout.problems:
        assert (problem.key, problem.value) == ("slipway:pools.edge.first_address", first)
        assert "2 free addresses inside 127.77.0.0/24" in problem.fix
