"""Whether all replicas fit: first-fit decreasing over the nodes of one pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a replica takes or a node has."""

    memory_bytes: int
    cpu_mhz: int
    ports: int
    devices: int = 0

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            memory_bytes=self.memory_bytes - other.memory_bytes,
            cpu_mhz=self.cpu_mhz - other.cpu_mhz,
            ports=self.ports - other.ports,
            devices=self.devices - other.devices,
        )

    def holds(self, other: Resources) -> bool:
        return (
            self.memory_bytes >= other.memory_bytes
            and self.cpu_mhz >= other.cpu_mhz
            and self.ports >= other.ports
            and self.devices >= other.devices
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`replicas` counts the replicas of each model per node, or their members; `unplaced` the
    replicas that did not fit."""

    replicas: Mapping[str, Mapping[str, int]]
    unplaced: Mapping[str, int]
    free: Mapping[str, Resources]


def place(
    nodes: Mapping[str, Resources],
    demands: Mapping[str, tuple[Resources, int]],
    *,
    members: Mapping[str, int] | None = None,
) -> Placement:
    """Place `count` replicas of each model, the largest first, on the first node with room. Of a
    model with `members`, each replica takes the same from as many nodes, or from none.

    Nodes and models are taken in a fixed order (size, then name), so the result does not depend
    on the order of the mappings. First-fit decreasing can miss a packing that exists; it never
    claims one that does not.
    """
    free = {name: nodes[name] for name in sorted(nodes)}
    replicas: dict[str, dict[str, int]] = {name: {} for name in free}
    unplaced: dict[str, int] = {}
    for model in sorted(demands, key=lambda name: (*_largest_first(demands[name][0]), name)):
        need, count = demands[model]
        size = (members or {}).get(model, 1)
        for _ in range(count):
            found = _first_fit(free, need, size)
            if len(found) < size:
                unplaced[model] = unplaced.get(model, 0) + 1
                continue
            for node in found:
                free[node] -= need
                replicas[node][model] = replicas[node].get(model, 0) + 1
    return Placement(replicas=replicas, unplaced=unplaced, free=free)


def room_for(nodes: Iterable[Resources], need: Resources, *, at_most: int, members: int = 1) -> int:
    """How many more replicas fit in the free space, at most `at_most`. Those of several members
    have each on a node of its own."""
    if members > 1:
        return min(at_most, sum(free.holds(need) for free in nodes) // members)
    room = 0
    for free in nodes:
        while room < at_most and free.holds(need):
            free -= need  # noqa: PLW2901 - what is left of this node
            room += 1
    return room


def _first_fit(free: Mapping[str, Resources], need: Resources, size: int) -> list[str]:
    return list(islice((name for name, left in free.items() if left.holds(need)), size))


def _largest_first(need: Resources) -> tuple[int, ...]:
    return (-need.devices, -need.memory_bytes, -need.cpu_mhz, -need.ports)
