"""The plan says that models fit exactly where Nomad's scheduler can place all their replicas."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from components.serving.nomad_job import model_job
from slipway.config.errors import ConfigError
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.components.device_hosts import DeviceHost, nomad_with_devices
from tests.unit.planner.fleets import engine, fleet, model_file

pytestmark = [pytest.mark.binaries]

SETS = 120
# Nomad takes the groups of a job in another order at each run (it ranges over a Go map), and small
# groups taken first may leave no host whole. The plan says that a way exists: one run must find it.
RUNS = 40
NO_ROOM = "would not fit: each|but the pool has at most"
GIB_MB = 1024
# What runs out first on each: devices, over two hosts; memory; cores.
HOSTS = (
    DeviceHost("devices-0", "devices", 8, 512 * GIB_MB, 128_000),
    DeviceHost("devices-1", "devices", 8, 512 * GIB_MB, 128_000),
    DeviceHost("memory-0", "memory", 8, 17 * GIB_MB, 128_000),
    DeviceHost("cores-0", "cores", 8, 512 * GIB_MB, 11_000),
)
POOLS = tuple(dict.fromkeys(host.pool for host in HOSTS))
Model = tuple[str, str, int, int]  # name, pool, devices, replicas


@pytest.fixture(scope="module")
def nomad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with nomad_with_devices(tmp_path_factory.mktemp("n"), HOSTS, datacenter="fleet") as client:
        yield client


def pools(*, spare: int = 0) -> dict[str, Any]:
    """As a stack file describes the hosts, with so many more in each pool."""
    made: dict[str, Any] = {}
    for host in HOSTS:
        pool = made.setdefault(
            host.pool,
            {
                "kind": "metal",
                "accelerator": "H100-80",
                "accelerators_per_node": host.devices,
                "nodes": spare,
                "memory": f"{host.memory_mb // GIB_MB}GiB",
                "cpu": host.cpu_mhz // 1000,
            },
        )
        pool["nodes"] += 1
    return made


def planned(models: list[Model], **changes: int) -> PlatformPlan:
    files = [
        model_file(
            name=name,
            engine=engine("llama-3.2-1b"),
            parallel={"tensor": devices},
            load=None,
            slo={},
        )
        for name, _, devices, _ in models
    ]
    deployments = {
        name: {"pools": [pool], "replicas": {"min": replicas, "max": replicas}}
        for name, pool, _, replicas in models
    }
    return make_plan(fleet(*files, pools=pools(**changes), deployments=deployments))


def fits(models: list[Model]) -> bool:
    try:
        planned(models)
    except ConfigError as error:
        if all(re.search(NO_ROOM, each.message) for each in error.problems):
            return False
        raise  # something else is wrong with them
    return True


def places_all(nomad: httpx.Client, models: list[Model]) -> bool:
    """The groups of all models in one job of each pool, which dry runs of the scheduler place."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for model in models:
        plan = planned([model], spare=64)
        (one,) = plan.models
        job = model_job(
            one, one.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling
        ).render()["Job"]
        (group,) = job["TaskGroups"]
        # They ask for Consul, which is not there.
        asks = {key: value for key, value in group.items() if key not in ("Services", "Scaling")}
        groups.setdefault(model[1], []).append(asks | {"Name": model[0]})
    return all(
        any(_places(nomad, pool, found) for _ in range(RUNS if len(found) > 1 else 1))
        for pool, found in groups.items()
    )


def _places(nomad: httpx.Client, pool: str, groups: list[dict[str, Any]]) -> bool:
    job = {
        "ID": f"set-{pool}",
        "Type": "service",
        "NodePool": pool,
        "Datacenters": ["fleet"],
        "TaskGroups": groups,
        "Update": {"MaxParallel": 0, "ProgressDeadline": 3_600_000_000_000},
    }
    answer = nomad.post(f"/v1/job/set-{pool}/plan", json={"Job": job})
    assert answer.is_success, answer.text
    return not answer.json()["FailedTGAllocs"]


def random_set(draw: random.Random) -> list[Model]:
    return [
        (f"m{number}", draw.choice(POOLS), draw.choice((1, 1, 2, 2, 4)), draw.randint(1, 3))
        for number in range(draw.randint(1, 5))
    ]


def test_the_plan_says_that_models_fit_exactly_where_the_scheduler_can_place_them(
    nomad: httpx.Client,
) -> None:
    draw, verdicts = random.Random(29), Counter[bool]()
    for _ in range(SETS):
        models = random_set(draw)
        verdict = fits(models)
        verdicts[verdict] += 1
        assert places_all(nomad, models) == verdict, models
    assert min(verdicts[True], verdicts[False]) > SETS // 5, verdicts


@pytest.mark.parametrize(
    ("models", "fit"),
    [
        ([("m", "devices", 8, 2)], True),
        ([("m", "devices", 8, 1), ("n", "devices", 4, 2)], True),
        ([("m", "devices", 8, 1), ("n", "devices", 4, 2), ("o", "devices", 1, 1)], False),
        ([("m", "memory", 1, 5)], True),
        ([("m", "memory", 1, 6)], False),
        ([("m", "cores", 1, 5)], True),
        ([("m", "cores", 1, 6)], False),
        ([("m", "cores", 8, 1)], True),
    ],
)
def test_each_kind_of_shortage_is_seen_by_both(
    nomad: httpx.Client, models: list[Model], fit: bool
) -> None:
    assert (fits(models), places_all(nomad, models)) == (fit, fit)
