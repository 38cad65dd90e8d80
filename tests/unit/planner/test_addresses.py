from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.dev import DevSettings
from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError
from slipway.planner.supply.addresses import FIRST_PORT, LAST_PORT, Layout, lay_out
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs


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


def test_hosts_have_the_documented_addresses() -> None:
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


def test_a_further_node_or_a_later_pool_moves_no_address() -> None:
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
def test_an_invalid_address_is_refused(first: str, message: str) -> None:
    layout = _layout({"cpu": _pool(2), "edge": _pool(2, first_address=first)})
    assert any(message in problem.message for problem in layout.problems)
    for problem in layout.problems:
        assert (problem.key, problem.value) == ("slipway:pools.edge.first_address", first)
        assert "2 free addresses inside 127.77.0.0/24" in problem.fix


# Slots.

NAMES = st.sampled_from([f"pool-{letter}" for letter in "abcdefghij"])


@given(
    slots=st.dictionaries(NAMES, st.integers(1, 15), min_size=2, max_size=8).filter(
        lambda slots: len(set(slots.values())) == len(slots)
    ),
    data=st.data(),
)
def test_with_slots_an_edit_of_a_pool_moves_no_other_pool(
    slots: dict[str, int], data: st.DataObject
) -> None:
    """Whichever pool is removed, renamed or added: the gateway's and all others stay."""
    nodes = data.draw(st.fixed_dictionaries({name: st.integers(1, 16) for name in slots}))
    pools = {name: _pool(nodes[name], slot=slots[name]) for name in slots}
    before = _layout(pools)
    edited = data.draw(st.sampled_from(sorted(slots)))
    rest = {name: pool for name, pool in pools.items() if name != edited}
    renamed = {"a-new-name": pools[edited], **rest}
    for after in (_layout(rest), _layout(renamed)):
        assert not after.problems
        for name in rest:
            assert after.nodes[name] == before.nodes[name]
    moved = [node.address for node in _layout(renamed).nodes["a-new-name"]]
    assert moved == [node.address for node in before.nodes[edited]]


def test_slots_that_repeat_the_positions_change_no_address() -> None:
    without = _layout({"cpu": _pool(2), "edge": _pool(1)})
    assert _layout({"cpu": _pool(2, slot=1), "edge": _pool(1, slot=2)}) == without


@pytest.mark.parametrize(
    ("edge", "key", "message"),
    [
        ({}, "slipway:pools.edge", "has no slot, but pool cpu has one"),
        ({"slot": 1}, "slipway:pools.edge.slot", "is already the slot of pool cpu"),
        (
            {"slot": 2, "first_address": "127.77.0.99"},
            "slipway:pools.edge.slot",
            "contradicts first_address, which is 127.77.0.99",
        ),
    ],
)
def test_slots_that_contradict_each_other_are_refused(
    edge: dict[str, object], key: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _layout({"cpu": _pool(1, slot=1), "edge": _pool(1, **edge)})
    (problem,) = caught.value.problems
    assert (problem.key, problem.message) == (key, message)
    assert problem.value is not None


def test_every_pool_without_a_slot_of_its_own_is_told_another_free_one_of_the_network() -> None:
    slots = {"a": 15, "b": 1, "c": 15, "d": None, "e": None}
    with pytest.raises(ConfigError) as caught:
        _layout({name: _pool(1, slot=slot) for name, slot in slots.items()})
    fixes = {problem.key: problem.fix for problem in caught.value.problems}
    assert fixes == {
        "slipway:pools.c.slot": "use a free one, e.g. 2",
        "slipway:pools.d": "add a free one, e.g. `slot: 3`, or remove all slots",
        "slipway:pools.e": "add a free one, e.g. `slot: 4`, or remove all slots",
    }


def test_as_many_pools_as_a_network_has_slots_are_told_all_of_them() -> None:
    with pytest.raises(ConfigError) as caught:
        _layout({f"pool-{k}": _pool(1, slot=15) for k in range(15)})
    fixes = {problem.fix for problem in caught.value.problems}
    assert fixes == {f"use a free one, e.g. {slot}" for slot in range(1, 15)}


def test_a_pool_with_its_own_first_address_needs_no_slot() -> None:
    layout = _layout({"cpu": _pool(1, slot=3), "edge": _pool(1, first_address="127.77.0.99")})
    assert not layout.problems
    assert layout.nodes["cpu"][0].address == "127.77.0.48"


def test_a_slot_outside_of_the_network_is_refused() -> None:
    (problem,) = _layout({"cpu": _pool(1, slot=16)}).problems
    assert problem.key == "slipway:pools.cpu.slot"
    assert "outside the network" in problem.message
    assert problem.fix == "use a free slot from 1 to 15"


def test_a_plan_without_slots_names_the_lines_to_add() -> None:
    pools = {"edge": _pool(1, memory="2GiB"), "cpu": _pool(2)}
    warnings = make_plan(dev_inputs(pools=pools)).warnings
    lines = "add to Pulumi.dev.yaml: pools.cpu.slot: 1, pools.edge.slot: 2"
    assert any(warning.endswith(lines) for warning in warnings)
    assert not any("slot" in warning for warning in make_plan(dev_inputs()).warnings)
