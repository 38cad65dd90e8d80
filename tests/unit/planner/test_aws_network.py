"""The network of an environment on AWS: nobody's address moves because of somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, given, reject
from hypothesis import strategies as st

from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError
from slipway.planner.supply.aws_hosts import FixedHosts, fixed_hosts
from slipway.planner.supply.aws_network import slots, zone_network

REGION = "eu-west-1"
ZONES = tuple(f"{REGION}{letter}" for letter in "abcdef")


def settings(
    *,
    zones: list[str],
    pools: Mapping[str, Any],
    servers: int = 3,
    cidr: str = "10.40.0.0/16",
) -> dict[str, Any]:
    return {
        "slipway:target": "aws",
        "slipway:network": {"cidr": cidr},
        "slipway:servers": servers,
        "slipway:aws": {
            "region": REGION,
            "zones": zones,
            "images": {"hosts": "ami-0123456789abcdef0"},
            "bucket": "acme-slipway",
            "authorized_keys": ["ssh-ed25519 " + "A" * 68],
        },
        "slipway:pools": {
            name: {"kind": "aws", "instance": "m7i.xlarge", **pool} for name, pool in pools.items()
        },
        "slipway:gateway": {"pool": "edge"},
        "slipway:models": {"chat": {"pool": "edge", "replicas": {"min": 1, "max": 1}}},
    }


def placed(values: Mapping[str, Any]) -> FixedHosts:
    environment = parse_environment(values, name="prod", source="Pulumi.prod.yaml")
    return fixed_hosts(environment.settings, environment.origin)  # type: ignore[arg-type]


def addresses(hosts: FixedHosts) -> dict[str, tuple[str, str]]:
    """Host -> its zone and address."""
    assert len({host.name for host in hosts.listed}) == len(hosts.listed)
    return {host.name: (hosts.zones[host.name], host.address) for host in hosts.listed}


@pytest.mark.parametrize("prefix", [16, 17, 18, 19])
def test_no_two_subnets_overlap_and_all_are_large_enough_for_aws(prefix: int) -> None:
    cidr = f"10.64.0.0/{prefix}"
    found = [
        IPv4Network(subnet)
        for zone in map(zone_network, [cidr] * len(ZONES), ZONES)
        for subnet in (zone.hosts, zone.services, zone.public, zone.elastic)
    ]
    assert not any(one.overlaps(other) for one, other in combinations(found, 2))
    assert all(each.subnet_of(IPv4Network(cidr)) and each.prefixlen <= 28 for each in found)
    assert slots(cidr) == 2 ** (21 - prefix)


names = st.text("abcdefgh", min_size=1, max_size=3)
# What an edit leaves as it is: the network, and of each pool its slot and its own zone.
kept = st.fixed_dictionaries(
    {
        "cidr": st.sampled_from(["10.40.0.0/16", "10.8.0.0/17", "172.16.64.0/18", "10.9.0.0/19"]),
        "slots": st.dictionaries(names, st.integers(2, 31), max_size=2),
        "one_zone": st.sets(names, max_size=3),
    }
)
sizes = st.one_of(st.integers(1, 16), st.just({"min": 0, "max": 9}))
edits = st.fixed_dictionaries(
    {
        "zones": st.integers(1, 6),
        "servers": st.sampled_from([1, 3, 5]),
        "edge": st.integers(1, 16),
        "pools": st.dictionaries(names, sizes, max_size=3),
    }
)


def drawn(kept: Mapping[str, Any], edit: Mapping[str, Any]) -> dict[str, Any]:
    pools: dict[str, Any] = {"edge": {"nodes": edit["edge"]}}
    for name, nodes in edit["pools"].items():
        pools[name] = {"nodes": nodes}
        if name in kept["one_zone"]:
            pools[name]["zone"] = ZONES[0]
        if name in kept["slots"] and isinstance(nodes, int):
            pools[name]["slot"] = kept["slots"][name]
    zones = list(ZONES[: edit["zones"]])
    return settings(zones=zones, pools=pools, servers=edit["servers"], cidr=kept["cidr"])


@hypothesis.settings(suppress_health_check=[HealthCheck.filter_too_much], max_examples=300)
@given(kept, edits, edits)
def test_an_edit_moves_no_host_that_it_does_not_name(
    kept: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Zones are appended or taken from the end; pools come, go, grow and change their order."""
    try:
        first, second = (addresses(placed(drawn(kept, edit))) for edit in (before, after))
    except ConfigError:  # too few zones, or two pools with one slot: nothing is built, nobody moves
        reject()
    for found in (first, second):
        assert len({address for _, address in found.values()}) == len(found)
        for zone, address in found.values():
            subnet = IPv4Network(zone_network(kept["cidr"], zone).hosts)
            assert IPv4Address(address) in [*subnet][4:-1]
    assert all(second[name] == place for name, place in first.items() if name in second)


def test_servers_are_in_three_zones_in_turn() -> None:
    values = settings(zones=list(ZONES[:4]), pools={"edge": {"nodes": 2}}, servers=5)
    assert addresses(placed(values)) == {
        "server-0": (ZONES[0], "10.40.0.4"),
        "server-1": (ZONES[1], "10.40.32.5"),
        "server-2": (ZONES[2], "10.40.64.6"),
        "server-3": (ZONES[0], "10.40.0.7"),
        "server-4": (ZONES[1], "10.40.32.8"),
        "edge-0": (ZONES[0], "10.40.0.16"),
        "edge-1": (ZONES[1], "10.40.32.17"),
    }


def test_pools_whose_hosts_would_have_the_same_addresses_are_refused_with_a_free_slot() -> None:
    pools = {"edge": {"nodes": 1}, "a": {"nodes": 2, "slot": 7}, "b": {"nodes": 2, "slot": 7}}
    with pytest.raises(ConfigError) as error:
        placed(settings(zones=list(ZONES[:3]), pools=pools))
    (problem,) = error.value.problems
    assert (problem.key, problem.value) == ("slipway:pools.b.slot", 7)
    assert "also the slot of pool a" in problem.message
    assert problem.fix.startswith("set `slot: 2`")


def test_a_slot_beyond_a_small_network_is_refused() -> None:
    pools = {"edge": {"nodes": 1}, "a": {"nodes": 1, "slot": 4}}
    with pytest.raises(ConfigError) as error:
        placed(settings(zones=list(ZONES[:3]), pools=pools, cidr="10.40.0.0/19"))
    (problem,) = error.value.problems
    assert "beyond the 4 slots" in problem.message
