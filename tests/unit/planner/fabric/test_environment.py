"""What members of groups are told of the fabric: one table, golden by fabric, vendor and layout.

SLIPWAY_UPDATE_GOLDEN=1 renews tests/golden/fabric/environment.json; read the difference before you
commit it.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import asdict, replace

import pytest

from slipway.config.fabric import OUTDATED, OWNED_BY_LAUNCHER
from slipway.plan.fabric import FabricSpec, Hca
from slipway.plan.figures import Layout
from slipway.planner.fabric.environment import (
    INTERFACE,
    KINDS,
    Variable,
    member_environment,
)
from slipway.planner.fabric.refusals import published
from tests.components.golden import assert_golden
from tests.unit.planner.fleets import CATALOG

LISTS = CATALOG.fabric_variables
VENDORS = {"nvidia": "nvidia", "amd": "amd", "processors": ""}
LAYOUTS = {
    "TP1 PP1": Layout(),
    "PP2": Layout(pipeline=2),
    "TP8 PP2": Layout(tensor=8, pipeline=2),
    "TP4 PP4": Layout(tensor=4, pipeline=4),
}
ADAPTERS = FabricSpec(
    control_interface="eno1",
    interfaces=("ens1f0", "ens2f0"),
    hcas=(Hca(device="mlx5_0", rail=0), Hca(device="mlx5_1", rail=1)),
    mtu=4096,
    gid_index=3,
    traffic_class=106,
    service_level=3,
    gpudirect=True,
)
FABRICS = {
    "infiniband, nothing stated": FabricSpec(kind="infiniband", gpudirect=True),
    "infiniband, all stated": replace(ADAPTERS, kind="infiniband"),
    "infiniband without GPUDirect": replace(ADAPTERS, kind="infiniband", gpudirect=False),
    "roce, nothing stated": FabricSpec(kind="roce", gpudirect=True),
    "roce, all stated": replace(ADAPTERS, kind="roce"),
    "efa": FabricSpec(kind="efa"),
    "tcp, nothing stated": FabricSpec(),
    "tcp, interfaces stated": FabricSpec(control_interface="eno1", interfaces=("ens1f0", "ens2f0")),
}
EVERY = [
    (fabric, vendor, layout)
    for fabric in FABRICS.values()
    for vendor in VENDORS.values()
    for layout in LAYOUTS.values()
]


def values_of(fabric: FabricSpec, vendor: str = "nvidia", **layout: int) -> dict[str, str]:
    planned = Layout(**layout) if layout else LAYOUTS["TP8 PP2"]
    return {
        each.name: each.value for each in member_environment(fabric, vendor=vendor, layout=planned)
    }


def every_variable() -> list[Variable]:
    return [
        variable
        for fabric, vendor, layout in EVERY
        for variable in member_environment(fabric, vendor=vendor, layout=layout)
    ]


def test_the_table_is_the_golden_one() -> None:
    assert {fabric.kind for fabric in FABRICS.values()} == set(KINDS)
    document = {
        f"{name}; {vendor}; {layout_name}": {
            variable.name: variable.value
            for variable in member_environment(fabric, vendor=key, layout=layout)
        }
        for name, fabric in FABRICS.items()
        for vendor, key in VENDORS.items()
        for layout_name, layout in LAYOUTS.items()
    }
    assert_golden("fabric/environment.json", document)


def test_every_variable_is_published_and_says_why_and_from_where() -> None:
    variables = every_variable()
    assert {variable.name for variable in variables} - published(LISTS) == set()
    for variable in variables:
        assert variable.reason
        assert variable.source.startswith(("NVIDIA, ", "PyTorch, "))
        assert datetime.date.fromisoformat(variable.date) <= LISTS["nccl"].date


def test_what_gpus_are_told_is_in_the_list_of_the_library_that_reads_it() -> None:
    known = {
        "NCCL": {*LISTS["nccl"].names},
        "GLOO": {*LISTS["pytorch"].names},
    }
    for variable in every_variable():
        assert variable.name in known[variable.name.partition("_")[0]]


def test_current_stacks_are_told_nothing_that_they_should_not_have() -> None:
    names = {variable.name for variable in every_variable()}
    assert names & set(OUTDATED) == set()
    assert names & OWNED_BY_LAUNCHER == set()
    assert not [name for name in names if re.match("FI_|RDMAV_|VLLM_", name)]


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS.keys())
def test_processors_are_told_of_gloo_alone(fabric: FabricSpec) -> None:
    assert values_of(fabric, vendor="").keys() == {"GLOO_SOCKET_IFNAME"}


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS.keys())
def test_both_vendors_of_gpus_read_the_same_names(fabric: FabricSpec) -> None:
    assert values_of(fabric, vendor="amd") == values_of(fabric, vendor="nvidia")


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS.keys())
def test_a_replica_of_one_device_has_no_members(fabric: FabricSpec) -> None:
    told = replace(fabric, environment={"NCCL_DEBUG": "INFO"})
    assert member_environment(told, vendor="nvidia", layout=Layout()) == ()


def test_tensors_over_tcp_use_the_fabrics_interfaces_and_rdma_agrees_over_the_control_network() -> (
    None
):
    tcp = values_of(FABRICS["tcp, interfaces stated"])
    assert (tcp["NCCL_NET"], tcp["NCCL_SOCKET_IFNAME"]) == ("Socket", "=ens1f0,ens2f0")
    rdma = values_of(FABRICS["roce, all stated"])
    assert (rdma["NCCL_NET"], rdma["NCCL_SOCKET_IFNAME"]) == ("IB", "=eno1")
    assert rdma["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    assert rdma["GLOO_SOCKET_IFNAME"] == "eno1"
    assert not [name for name in tcp if name.startswith("NCCL_IB_")]


def test_an_interface_that_nobody_states_is_left_to_the_launcher() -> None:
    told = values_of(FabricSpec())
    assert told["GLOO_SOCKET_IFNAME"] == INTERFACE
    assert told["NCCL_SOCKET_IFNAME"] == f"={INTERFACE}"
    stated = values_of(FABRICS["tcp, interfaces stated"])
    assert not [value for value in stated.values() if INTERFACE in value]


def test_what_the_pool_does_not_state_is_left_to_nccl() -> None:
    told = values_of(FABRICS["roce, nothing stated"])
    assert told.keys() == {"GLOO_SOCKET_IFNAME", "NCCL_NET", "NCCL_SOCKET_IFNAME"}


def test_members_of_several_devices_stay_on_their_rails() -> None:
    railed = FABRICS["infiniband, all stated"]
    assert values_of(railed, tensor=8, pipeline=2)["NCCL_CROSS_NIC"] == "0"
    assert "NCCL_CROSS_NIC" not in values_of(railed, pipeline=2)
    flat = replace(railed, hcas=tuple(Hca(device=hca.device) for hca in railed.hcas))
    assert "NCCL_CROSS_NIC" not in values_of(flat, tensor=8, pipeline=2)


def test_gpudirect_is_switched_off_only_where_the_pool_says_so() -> None:
    assert values_of(FABRICS["infiniband without GPUDirect"])["NCCL_NET_GDR_LEVEL"] == "LOC"
    assert "NCCL_NET_GDR_LEVEL" not in values_of(FABRICS["infiniband, all stated"])
    assert "NCCL_NET_GDR_LEVEL" not in values_of(FABRICS["efa"])


def test_the_user_overrides_single_variables_and_both_values_are_kept() -> None:
    fabric = replace(
        FABRICS["roce, all stated"],
        environment={"NCCL_IB_GID_INDEX": "1", "NCCL_IB_TIMEOUT": "22"},
    )
    planned = member_environment(fabric, vendor="nvidia", layout=LAYOUTS["TP8 PP2"])
    variables = {variable.name: variable for variable in planned}
    index, timeout = variables["NCCL_IB_GID_INDEX"], variables["NCCL_IB_TIMEOUT"]
    assert (index.value, index.default, index.override) == ("1", "3", "1")
    assert (timeout.value, timeout.default, timeout.override) == ("22", None, "22")
    others = {
        name: asdict(variable)
        for name, variable in variables.items()
        if name not in fabric.environment
    }
    untouched = member_environment(
        FABRICS["roce, all stated"], vendor="nvidia", layout=LAYOUTS["TP8 PP2"]
    )
    assert others == {
        each.name: asdict(each) for each in untouched if each.name != "NCCL_IB_GID_INDEX"
    }
    assert [*variables] == sorted(variables)
