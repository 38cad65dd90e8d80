from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from slipway.planner.placement import Resources, place, room_for

resources = st.builds(
    Resources,
    memory_bytes=st.integers(1, 20),
    cpu_mhz=st.integers(1, 20),
    ports=st.integers(0, 20),
)
node_sets = st.dictionaries(st.sampled_from("abcdef"), resources, max_size=6)
demand_sets = st.dictionaries(
    st.sampled_from("uvwxyz"), st.tuples(resources, st.integers(1, 5)), max_size=6
)


def _unit(memory: int) -> Resources:
    return Resources(memory_bytes=memory, cpu_mhz=0, ports=0)


@given(nodes=node_sets, demands=demand_sets)
def test_no_node_is_given_more_than_it_has(
    nodes: dict[str, Resources], demands: dict[str, tuple[Resources, int]]
) -> None:
    placement = place(nodes, demands)
    for name, has in nodes.items():
        left = has
        for model, count in placement.replicas[name].items():
            for _ in range(count):
                left -= demands[model][0]
        assert left == placement.free[name]
        assert min(left.memory_bytes, left.cpu_mhz, left.ports) >= 0


@given(nodes=node_sets, demands=demand_sets)
def test_every_replica_is_placed_or_reported(
    nodes: dict[str, Resources], demands: dict[str, tuple[Resources, int]]
) -> None:
    placement = place(nodes, demands)
    for model, (_, count) in demands.items():
        placed = sum(replicas.get(model, 0) for replicas in placement.replicas.values())
        assert placed + placement.unplaced.get(model, 0) == count


@given(nodes=node_sets, demands=demand_sets)
def test_a_replica_is_left_out_only_when_no_node_has_room_for_it(
    nodes: dict[str, Resources], demands: dict[str, tuple[Resources, int]]
) -> None:
    placement = place(nodes, demands)
    for model in placement.unplaced:
        assert not any(free.holds(demands[model][0]) for free in placement.free.values())


@given(nodes=node_sets, demands=demand_sets, seed=st.integers())
def test_the_order_of_nodes_and_models_does_not_matter(
    nodes: dict[str, Resources], demands: dict[str, tuple[Resources, int]], seed: int
) -> None:
    shuffle = random.Random(seed).sample
    other_nodes = dict(shuffle(sorted(nodes.items()), len(nodes)))
    other_demands = dict(shuffle(sorted(demands.items(), key=lambda item: item[0]), len(demands)))
    assert place(nodes, demands) == place(other_nodes, other_demands)


def test_the_largest_goes_first() -> None:
    """In the order of names "small" would take the only place "tall" fits in."""
    nodes = {"n0": _unit(10), "n1": _unit(3)}
    placement = place(nodes, {"small": (_unit(3), 1), "tall": (_unit(10), 1)})
    assert not placement.unplaced
    assert placement.replicas == {"n0": {"tall": 1}, "n1": {"small": 1}}


def test_room_is_counted_over_all_nodes() -> None:
    assert room_for([_unit(5), _unit(4), _unit(1)], _unit(2), at_most=10) == 4


def test_room_is_counted_no_further_than_asked() -> None:
    assert room_for([_unit(50)], _unit(1), at_most=3) == 3
