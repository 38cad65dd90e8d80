"""Where instances keep weights: on their own disks, whose size is known, or on the root volume."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.errors import ConfigError, Problem
from slipway.plan.platform import ModelStore, PlatformPlan
from stacks.planning import make_plan
from tests.unit.planner.fleets import H100, L4, fleet
from tests.unit.planner.test_aws_plan import CLOUD, EDGE

GIB = 2**30
GB = 10**9
ELASTIC_CPU = {"kind": "aws", "instance": "m7i.8xlarge", "nodes": {"min": 0, "max": 2}}
FIXED = {**L4, "nodes": 2}
ON_DISK = "/mnt/models"


def planned(store: dict[str, Any], pool: dict[str, Any] = L4) -> PlatformPlan:
    pools = {"edge": EDGE, "l4": L4, "weights": {**pool, "model_store": store}}
    deployed = {"chat": {"pools": ["l4", "weights"], "replicas": {"min": 1, "max": 2}}}
    return make_plan(fleet(pools=pools, deployments=deployed, servers=3, aws=CLOUD))


def store_of(plan: PlatformPlan) -> ModelStore:
    store = plan.pool("weights").model_store
    assert store is not None
    return store


def on_own_disks(plan: PlatformPlan) -> bool:
    assert plan.aws is not None
    return plan.aws.pools["weights"].local_store


def refused(store: dict[str, Any], pool: dict[str, Any] = L4) -> Problem:
    with pytest.raises(ConfigError) as caught:
        planned(store, pool)
    (problem,) = caught.value.problems
    return problem


def test_a_path_is_where_nodes_mount_disks_of_their_own_whose_size_is_known() -> None:
    plan = planned({"path": ON_DISK, "files_at_once": 16})
    assert on_own_disks(plan)
    store = store_of(plan)
    assert (store.path, store.files_at_once) == (ON_DISK, 16)
    assert store.size_bytes == pytest.approx(250 * GB, rel=0.03)  # of a g6.xlarge
    zoned = {**H100, "zone": "us-east-1a"}
    assert store_of(planned({"path": ON_DISK}, zoned)).size_bytes == pytest.approx(
        8 * 3800 * GB, rel=0.03
    )


def test_less_than_the_disks_hold_may_be_stated() -> None:
    plan = planned({"path": ON_DISK, "size": "200GiB"})
    assert (on_own_disks(plan), store_of(plan).size_bytes) == (True, 200 * GIB)


def test_without_a_path_weights_are_on_the_root_volume() -> None:
    plan = planned({"size": "80GiB"})
    assert not on_own_disks(plan)
    assert (store_of(plan).path, store_of(plan).size_bytes) == ("", 80 * GIB)


def test_a_fixed_host_may_have_any_disk_that_somebody_mounts() -> None:
    plan = planned({"path": ON_DISK, "size": "3TiB"}, FIXED)
    assert plan.aws is not None
    assert "weights" not in plan.aws.pools
    assert store_of(plan).size_bytes == 3 * 2**40


def test_a_pool_that_states_no_store_keeps_its_disks_unused() -> None:
    plan = make_plan(fleet(pools={"edge": EDGE, "l4": L4}, servers=3, aws=CLOUD))
    assert plan.aws is not None
    assert (plan.pool("l4").model_store, plan.aws.pools["l4"].local_store) == (None, False)


MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str, Any, str, str]] = {
    "more than the disks hold": (
        *({"path": ON_DISK, "size": "1TiB"}, L4),
        *("size", "1024.0 GiB"),
        *("more than the disks of g6.xlarge hold, 228.2 GiB", "leave it out"),
    ),
    "a disk that the instance does not have": (
        *({"path": ON_DISK, "size": "50GiB"}, ELASTIC_CPU),
        *("path", ON_DISK),
        *("m7i.8xlarge has none of its own", "remove it (weights are then kept on the root"),
    ),
    "neither path nor size": (
        *({"files_at_once": 8}, L4),
        *("size", None),
        *("is missing", "`path: /mnt/models` for the 250 GB of its own disks"),
    ),
    "no size of what is on the root volume": (
        *({"files_at_once": 8}, ELASTIC_CPU),
        *("size", None),
        *("is missing", "add what weights may take of the root volume"),
    ),
    "no size of the disk of a fixed host": (
        *({"path": ON_DISK}, FIXED),
        *("size", None),
        *("is missing", "add the size of the disk that is mounted there"),
    ),
    "more than the root volume holds": (
        *({"size": "90GiB"}, L4),
        *("size", "90.0 GiB"),
        *("a root volume of 100 GiB has beside 20 GiB for the system", "set `root_gib: 110`"),
    ),
    "more than a larger root volume holds": (
        *({"size": "290GiB"}, {**FIXED, "root_gib": 300}),
        *("size", "290.0 GiB"),
        *("a root volume of 300 GiB", "set `root_gib: 310`"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_store_that_no_node_could_have_is_refused(mistake: str) -> None:
    store, pool, key, value, says, fix = MISTAKES[mistake]
    problem = refused(store, pool)
    assert (problem.key, problem.value) == (f"slipway:pools.weights.model_store.{key}", value)
    assert says in problem.message
    assert fix in problem.fix


def test_the_models_of_a_pool_must_fit_on_its_own_disks() -> None:
    small = {"path": ON_DISK, "size": "10GiB"}
    pools = {"edge": EDGE, "l4": {**L4, "model_store": small}}
    deployed = {"chat": {"pools": ["l4"], "replicas": {"min": 1, "max": 2}}}
    with pytest.raises(ConfigError, match=r"15\.0 GiB in all"):
        make_plan(fleet(pools=pools, deployments=deployed, servers=3, aws=CLOUD))


@pytest.mark.parametrize("path", ["mnt/models", 7])
def test_a_path_that_is_none_is_refused_as_on_owned_hosts(path: Any) -> None:
    assert refused({"path": path}).key == "slipway:pools.weights.model_store.path"
