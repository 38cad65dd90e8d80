"""The fabric of a pool in stack files: a word or a mapping, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.document import Origin
from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError, Problem
from slipway.config.fabric import OWNED_BY_LAUNCHER, domain_problems
from slipway.config.hosts import HostSettings
from slipway.plan.fabric import FabricSpec, Hca
from slipway.planner.fabric.spec import aws_fabric, local_fabric, metal_fabric
from tests.unit.planner.fleets import CATALOG, H100, OWNED

CPU = {"kind": "metal", "nodes": 2, "memory": "64GiB", "cpu": 32}
LOCAL = {"kind": "local", "nodes": 2}
RAILS = [{"device": "mlx5_0", "rail": 0}, {"device": "mlx5_1", "rail": 1}]
ROCE = {
    "kind": "roce",
    "control_interface": "eno1",
    "interfaces": ["ens1f0", "ens2f0"],
    "networks": ["10.80.0.16/28", "10.81.0.17"],
    "hcas": RAILS,
    "mtu": 4096,
    "gid_index": 3,
    "traffic_class": 106,
    "service_level": 3,
}
ORIGIN = Origin(source="Pulumi.own.yaml")
TARGETS = {"metal": "metal", "aws": "aws", "local": "dev"}


def settings_of(pool: dict[str, Any], fabric: Any) -> Any:
    target = TARGETS[pool["kind"]]
    values = {
        "target": target,
        "network": {"cidr": "127.77.0.0/24" if target == "dev" else "10.40.0.0/16"},
        "pools": {"here": pool | ({} if fabric is None else {"fabric": fabric})},
        "models": {},
        "gateway": {"pool": "here"},
    }
    environment = parse_environment(values, name="own", source="Pulumi.own.yaml")
    return environment.settings.pools["here"]


def refused(pool: dict[str, Any], fabric: Any) -> Problem:
    with pytest.raises(ConfigError) as error:
        settings_of(pool, fabric)
    (problem,) = error.value.problems
    return problem


@pytest.mark.parametrize("word", ["infiniband", "roce", "tcp"])
@pytest.mark.parametrize("pool", [OWNED, CPU], ids=["accelerators", "processors"])
def test_a_single_word_says_the_kind_of_owned_machines(pool: dict[str, Any], word: Any) -> None:
    settings = settings_of(pool, word)
    fabric = metal_fabric(settings.fabric, settings.accelerators_per_node)
    gpudirect = word != "tcp" and pool is OWNED
    assert fabric == FabricSpec(kind=word, gpudirect=gpudirect)
    assert settings.fabric == settings_of(pool, {"kind": word}).fabric


@pytest.mark.parametrize("fabric", [None, "tcp", {}, {"kind": "tcp"}])
def test_a_pool_without_settings_is_joined_by_tcp(fabric: Any) -> None:
    assert metal_fabric(settings_of(OWNED, fabric).fabric, 8) == FabricSpec()
    assert local_fabric(settings_of(LOCAL, fabric).fabric) == FabricSpec()


def test_a_mapping_says_every_part() -> None:
    planned = metal_fabric(settings_of(OWNED, ROCE).fabric, 8)
    assert planned == FabricSpec(
        kind="roce",
        control_interface="eno1",
        interfaces=("ens1f0", "ens2f0"),
        networks=("10.80.0.16/28", "10.81.0.17"),
        hcas=(Hca(device="mlx5_0", rail=0), Hca(device="mlx5_1", rail=1)),
        mtu=4096,
        gid_index=3,
        traffic_class=106,
        service_level=3,
        gpudirect=True,
    )
    off = settings_of(OWNED, ROCE | {"gpudirect": False}).fabric
    assert not metal_fabric(off, 8).gpudirect


def test_numbers_are_variables_as_well() -> None:
    fabric = {"environment": {"NCCL_IB_TIMEOUT": 22, "NCCL_DEBUG": "INFO"}, "allow_tcp": True}
    planned = metal_fabric(settings_of(OWNED, fabric).fabric, 8)
    assert planned.environment == {"NCCL_DEBUG": "INFO", "NCCL_IB_TIMEOUT": "22"}
    assert planned.allow_tcp


@pytest.mark.parametrize(("instance", "kind"), [("p5.48xlarge", "efa"), ("g6.xlarge", "tcp")])
def test_on_aws_the_fabric_follows_from_the_instance(instance: str, kind: Any) -> None:
    fabric = {"allow_tcp": True, "member_silence_s": 7, "environment": {"NCCL_DEBUG": "INFO"}}
    settings = settings_of(H100 | {"instance": instance}, fabric)
    assert aws_fabric(settings.fabric, CATALOG.instances[instance]) == FabricSpec(
        kind=kind, allow_tcp=True, member_silence_s=7, environment={"NCCL_DEBUG": "INFO"}
    )


def changed(**changes: Any) -> dict[str, Any]:
    return ROCE | changes


REFUSED: dict[str, tuple[dict[str, Any], Any, tuple[str, str, str]]] = {
    "an unknown word": (OWNED, "infinband", ("", "infiniband, roce or tcp", "infiniband")),
    "an unknown kind": (OWNED, {"kind": "ib"}, (".kind", "'infiniband', 'roce'", "")),
    "efa on owned machines": (OWNED, "efa", ("", "infiniband, roce or tcp", "")),
    "an unknown key": (OWNED, {"hca": "mlx5_0"}, (".hca", "unknown key", "hcas")),
    "an HCA on tcp": (OWNED, {"hcas": [{"device": "mlx5_0"}]}, (".hcas", "is tcp", "remove hcas")),
    "a GID index on tcp": (OWNED, {"gid_index": 3}, (".gid_index", "is tcp", "remove gid_index")),
    "GPUDirect on tcp": (OWNED, {"gpudirect": True}, (".gpudirect", "is tcp", "kind: roce")),
    "a class on tcp": (OWNED, {"traffic_class": 0}, (".traffic_class", "is tcp", "remove")),
    "GPUDirect without accelerators": (
        CPU,
        {"kind": "roce", "gpudirect": True},
        (".gpudirect", "needs accelerators", "remove gpudirect"),
    ),
    "an Ethernet MTU on RoCE": (OWNED, changed(mtu=9000), (".mtu", "4096", "ibv_devinfo")),
    "a payload that is none": (
        OWNED,
        {"kind": "infiniband", "mtu": 2000},
        (".mtu", "infiniband has: 256", "ibv_devinfo"),
    ),
    "an MTU below IP's": (OWNED, {"mtu": 500}, (".mtu", "1280 and 65520", "9000")),
    "an MTU above IP's": (OWNED, {"mtu": 70000}, (".mtu", "1280 and 65520", "9000")),
    "an MTU that is no number": (OWNED, changed(mtu="big"), (".mtu", "whole number", "")),
    "a rail twice": (
        OWNED,
        changed(hcas=[RAILS[0], RAILS[1] | {"rail": 0}]),
        (".hcas", "two ports on one rail", "a rail of its own"),
    ),
    "a port without its rail": (
        OWNED,
        changed(hcas=[RAILS[0], {"device": "mlx5_1"}]),
        (".hcas", "ports without", "add `rail:`"),
    ),
    "a port twice": (
        OWNED,
        changed(hcas=[{"device": "mlx5_0"}, {"device": "mlx5_0", "port": 1}]),
        (".hcas", "lists a port twice", "once"),
    ),
    "a port of 0": (
        OWNED,
        changed(hcas=[{"device": "mlx5_0", "port": 0}]),
        (".hcas.0.port", "at least 1", "1 or more"),
    ),
    "an HCA without a name": (
        OWNED,
        changed(hcas=[{"device": ""}]),
        (".hcas.0.device", "name of an HCA", "mlx5_0"),
    ),
    "a negative GID index": (OWNED, changed(gid_index=-1), (".gid_index", "at least 0", "0")),
    "a service level above 15": (
        OWNED,
        changed(service_level=16),
        (".service_level", "at most 15", "15 or less"),
    ),
    "a traffic class above 255": (
        OWNED,
        changed(traffic_class=256),
        (".traffic_class", "at most 255", "255 or less"),
    ),
    "an interface twice": (
        OWNED,
        changed(interfaces=["ens1f0", "ens1f0"]),
        (".interfaces", "an interface twice", "once"),
    ),
    "a network with bits of a host": (
        OWNED,
        {"interfaces": ["ens1f0"], "networks": ["10.80.0.17/28"]},
        (".networks.0", "host bits", "10.80.0.16/28"),
    ),
    "a network twice": (
        OWNED,
        {"interfaces": ["ens1f0"], "networks": ["10.80.0.17", "10.80.0.17/32"]},
        (".networks", "a network twice", "once"),
    ),
    "networks without an interface": (
        OWNED,
        {"networks": ["10.80.0.16/28"]},
        (".networks", "`interfaces` of the fabric", "remove networks"),
    ),
    "networks on this machine": (
        LOCAL,
        {"networks": ["127.0.0.1"]},
        (".networks", "unknown", ""),
    ),
    "an interface twice on this machine": (
        LOCAL,
        {"interfaces": ["lo", "lo"]},
        (".interfaces", "an interface twice", "once"),
    ),
    "a name that no interface can have": (
        OWNED,
        {"control_interface": "enp129s0f0np0v12"},
        (".control_interface", "name of an interface", "eno1"),
    ),
    "no silence at all": (
        OWNED,
        {"member_silence_s": 0},
        (".member_silence_s", "at least 1", "1 or more"),
    ),
    "a value of two lines": (
        OWNED,
        {"environment": {"NCCL_DEBUG": "INFO\nX=1"}},
        (".environment.NCCL_DEBUG", "one line", "INFO"),
    ),
    "a variable that current libraries should not have": (
        H100,
        {"environment": {"FI_EFA_USE_DEVICE_RDMA": "1"}},
        (".environment.FI_EFA_USE_DEVICE_RDMA", "libfabric decides", "remove"),
    ),
    "an HCA on AWS": (H100, {"hcas": RAILS}, ("", "follows from the instance", "remove `hcas`")),
    "a word on AWS": (H100, "efa", ("", "follows from the instance", "allow_tcp")),
    "an unknown key on AWS": (H100, {"allow_tpc": True}, (".allow_tpc", "unknown", "allow_tcp")),
    "RoCE on this machine": (LOCAL, "roce", ("", "must be tcp", "tcp")),
    "an HCA on this machine": (LOCAL, {"hcas": RAILS}, (".hcas", "unknown key", "")),
}


@pytest.mark.parametrize(("pool", "fabric", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_a_fabric_that_cannot_be_is_refused_with_its_key_and_its_fix(
    pool: dict[str, Any], fabric: Any, complaint: tuple[str, str, str]
) -> None:
    key, message, fix = complaint
    problem = refused(pool, fabric)
    assert problem.key == f"slipway:pools.here.fabric{key}"
    assert message in problem.message
    assert fix in problem.fix
    assert problem.value is not None


@pytest.mark.parametrize("pool", [OWNED, H100, LOCAL], ids=["metal", "aws", "local"])
@pytest.mark.parametrize("name", sorted(OWNED_BY_LAUNCHER))
def test_nobody_sets_what_the_launcher_sets(pool: dict[str, Any], name: str) -> None:
    problem = refused(pool, {"environment": {name: "1"}})
    assert problem.key == f"slipway:pools.here.fabric.environment.{name}"
    assert "set by the launcher" in problem.message
    assert (problem.value, problem.fix) == ("1", f"remove {name}")


def host(name: str, domain: str | None) -> HostSettings:
    return HostSettings(name=name, address="10.40.0.11", domain=domain)


@pytest.mark.parametrize("domain", ["hall-1", None])
def test_hosts_of_one_domain_can_be_grouped(domain: str | None) -> None:
    hosts = [host("rack1", domain), host("rack2", domain)]
    assert [*domain_problems("gpu", hosts, "chat", ORIGIN)] == []


@pytest.mark.parametrize("other", ["hall-2", None])
def test_groups_do_not_span_domains(other: str | None) -> None:
    hosts = [host("rack1", "hall-1"), host("rack2", "hall-1"), host("rack3", other)]
    (problem,) = domain_problems("gpu", hosts, "chat", ORIGIN)
    assert problem.key == "pools.gpu"
    assert "rack1 is in hall-1" in problem.message
    assert problem.value == {"rack1": "hall-1", "rack3": other}
    assert "a pool of its own" in problem.fix


@pytest.mark.parametrize("pool", [LOCAL, CPU, OWNED, H100], ids=["local", "cpu", "gpu", "aws"])
def test_thresholds_of_the_check_may_be_stated_for_every_pool(pool: dict[str, Any]) -> None:
    kind = {"kind": "tcp"} if pool is not H100 else {}
    check = settings_of(
        pool, {**kind, "check": {"bandwidth_share": 0.5, "jitter_us": 100}}
    ).fabric.check
    assert (check.bandwidth_share, check.jitter_us, check.latency_us) == (0.5, 100, None)


@pytest.mark.parametrize(
    ("check", "key", "said"),
    [
        ({"bandwidth_share": 1.1}, "bandwidth_share", "1"),
        ({"rail_share": 2}, "rail_share", "1"),
        ({"latency_us": 0}, "latency_us", "0"),
        ({"jitter_us": "fast"}, "jitter_us", "number"),
        ({"hope": 1}, "hope", "unknown"),
    ],
)
def test_thresholds_that_no_link_can_reach_are_refused(
    check: dict[str, Any], key: str, said: str
) -> None:
    problem = refused(CPU, {"kind": "tcp", "check": check})
    assert problem.key.endswith(f"fabric.check.{key}")
    assert said in problem.message
    assert problem.fix
