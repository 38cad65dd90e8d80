"""Hosts with accelerators: examined, brought up, served from, and told when a device turns bad.

The hosts have no device: tests/hosts/accelerators.py says what answers in its place.
bench/accelerator_faults.py has the bars of the times.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli.applied import from_document
from cli.clusters.measured import measure
from slipway.planner.engines.vllm.metrics import METRICS
from slipway.planner.reports.comparison import Measured, MeasuredDevices
from tests.hosts.accelerators import (
    ADDRESSES,
    CORES,
    EDGE,
    GPUS,
    MEMORY_GIB,
    NOMAD,
    SETTINGS,
    UUIDS,
    health,
    job_of,
    put_devices,
    replicas,
    smi,
    used_mib,
    with_simulated_replicas,
    write,
)
from tests.hosts.bed import Bed, Host
from tests.hosts.canaries import (
    command_lines,
    files_with,
    seen_by_the_operator,
    seen_on,
    shown,
)
from tests.hosts.device_faults import (
    Move,
    ask_for_a_replica_too_many,
    is_settled,
    leave_for_a_spare_device,
    leave_once_a_device_is_free,
    trust_again,
)
from tests.hosts.environment import Checkout, environment
from tests.hosts.random_steps import RandomSteps
from tests.hosts.weight_sources import WeightSources, give_credentials, weight_sources, write_models
from tests.unit.cli.documents import plan_document
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/hosts.schema.json").read_text())
CREDENTIALS = re.compile("/alloc/[0-9a-f-]{36}/weights/secrets/credentials[.]json$")
REFUSED = "no healthy replica of this model is available, try again shortly"
PROMETHEUS = f"https://{EDGE}:9090"


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return ADDRESSES


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Of an environment without models, which is not up yet."""
    with environment(
        hosts, tmp_path_factory, models={}, settings=SETTINGS, files=with_simulated_replicas
    ) as made:
        yield made


@pytest.fixture(scope="module")
def gpu(hosts: Bed) -> Host:
    return hosts.hosts["gpu-0"]


def device_checks(checkout: Checkout) -> dict[str, str]:
    """What `doctor` says is wrong with the host, by name."""
    done = checkout.slipway("doctor", "--host", "gpu-0", "--json", check=False)
    checks = json.loads(done.stdout)
    return {check["name"]: check["detail"] for check in checks if check["state"] == "fail"}


def unhealthy_devices(checkout: Checkout) -> dict[str, str]:
    """Of all hosts, with the reasons."""
    document = json.loads(checkout.slipway("hosts", "--json").stdout)
    jsonschema.validate(document, SCHEMA)
    found = [each["unhealthy_devices"] for each in document["hosts"] if each["name"] in GPUS]
    return {device: reason for devices in found for device, reason in devices.items()}


def test_a_host_without_its_driver_gets_nothing(checkout: Checkout, gpu: Host) -> None:
    assert "nvidia-smi is not installed" in device_checks(checkout)["driver"]
    done = checkout.slipway("up", check=False)
    assert done.returncode == 1
    assert "has no nvidia driver that answers" in done.stdout + done.stderr
    gpu.ssh("test ! -e /opt/slipway")


def test_everything_that_is_wrong_with_the_devices_is_told(checkout: Checkout, gpu: Host) -> None:
    write(gpu, "/usr/bin/nvidia-smi", smi("NVIDIA L4", devices=3))
    assert device_checks(checkout) == {
        "devices": "gpu-0 shows 3 of 4 devices",
        "model": "gpu-0 has NVIDIA L4; its pool has NVIDIA L40S",
    }


@pytest.fixture(scope="module")
def platform(checkout: Checkout, hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The environment, up, with the hosts' devices."""
    put_devices(hosts, tmp_path_factory.mktemp("library"))
    checkout.slipway("up")
    return checkout


def test_nomad_knows_the_devices_of_every_host(platform: Checkout) -> None:
    nodes = {each["Name"]: each["ID"] for each in platform.ask(f"{NOMAD}/v1/nodes")}
    for name in GPUS:
        resources = platform.ask(f"{NOMAD}/v1/node/{nodes[name]}")["NodeResources"]
        (group,) = resources["Devices"]
        assert (group["Vendor"], group["Type"], group["Name"]) == ("nvidia", "gpu", "NVIDIA L40S")
        assert {each["ID"]: each["Healthy"] for each in group["Instances"]} == dict.fromkeys(
            UUIDS[name], True
        )
        assert resources["Memory"]["MemoryMB"] == MEMORY_GIB * 1024
        assert resources["Cpu"]["CpuShares"] == CORES * 1000


def test_prometheus_has_the_figures_of_the_devices(platform: Checkout) -> None:
    query = f"{PROMETHEUS}/api/v1/query?query=DCGM_FI_DEV_GPU_TEMP"
    every = {uuid: host for host, uuids in UUIDS.items() for uuid in uuids}

    def figures() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = platform.ask(query)["data"]["result"]
        return found if len(found) == len(every) else None

    found = until(figures)
    assert {each["metric"]["UUID"]: each["metric"]["node"] for each in found} == every
    assert {each["value"][1] for each in found} == {"41"}


@pytest.fixture(scope="module")
def commands_of_up() -> set[bytes]:
    """The command lines of all processes while the `up` ran that brought the models."""
    return set()


@pytest.fixture(scope="module")
def sources(hosts: Bed) -> Iterator[WeightSources]:
    with weight_sources(tuple(GPUS)) as made:
        yield made


@pytest.fixture(scope="module")
def serving(platform: Checkout, sources: WeightSources, commands_of_up: set[bytes]) -> Checkout:
    """The environment with its models, whose weights come from a bucket and from the hub."""
    with command_lines() as seen:
        give_credentials(platform, sources)
        write_models(platform, sources)
        platform.slipway("up")
    commands_of_up |= seen
    return platform


def test_a_model_is_compared_by_the_figures_of_the_devices_that_nomad_gave_it(
    serving: Checkout,
) -> None:
    applied = dataclasses.replace(
        from_document(plan_document()), prometheus=PROMETHEUS, operator=serving.operator
    )
    (own,) = [each.devices for each in replicas(serving) if each.model == "pair"]

    def seen() -> Measured | None:
        allocated = serving.ask(f"{NOMAD}/v1/allocations?resources=true")
        found = measure(applied, {"pair": METRICS}, allocated, window_s=60)["pair"]
        return found if found.devices and found.kv_tokens else None

    found = until(seen)
    assert found.jobs == (job_of(serving, "pair"),)
    assert found.devices == MeasuredDevices(
        models=("NVIDIA L40S",),
        drivers=("580.95.05",),
        used_bytes=max(map(used_mib, own)) << 20,
    )
    assert found.replicas == 1


def test_credentials_of_weights_are_only_where_they_belong(
    serving: Checkout, hosts: Bed, sources: WeightSources, commands_of_up: set[bytes]
) -> None:
    """In the memory of hosts, as secrets of the tasks that fetch."""
    of_bucket, of_hub = sources.authorizations().values()
    assert of_bucket
    assert all(sources.credentials["models"]["access_key_id"] in str(each) for each in of_bucket)
    assert f"Bearer {sources.credentials['hub']['token']}" in of_hub
    with ThreadPoolExecutor() as at_once:
        shown_on = at_once.map(lambda host: seen_on(host, sources.canaries), hosts.hosts.values())
        found_on = at_once.map(
            lambda host: files_with(host, sources.canaries.values()), hosts.hosts.values()
        )
    assert [*shown_on] == [[]] * len(ADDRESSES)
    for name, found in zip(hosts.hosts, found_on, strict=True):
        assert {(mode, kind) for mode, kind, _ in found} <= {("600", "tmpfs")}
        assert all(CREDENTIALS.search(path) for _, _, path in found), found
        assert bool(found) == (name in GPUS)
    # Nomad's servers have them on their disks, encrypted: what they are called is found there.
    found = files_with(hosts.hosts["server-0"], ["slipway/credentials/models"])
    assert [path for _, _, path in found if path.endswith("/server/raft/raft.db")]
    assert seen_by_the_operator(serving, sources.canaries) == []
    assert any(b"/weights.py" in line for line in commands_of_up)
    assert shown(commands_of_up, sources.canaries) == []


def test_a_replica_leaves_a_device_that_turns_bad_for_a_spare_one_and_no_stream_fails(
    serving: Checkout, hosts: Bed
) -> None:
    move = leave_for_a_spare_device(serving, hosts)
    assert failed(move) == {}
    assert move.gone == move.ended == {move.left}
    assert not move.restarted


def failed(move: Move) -> dict[str, list[str]]:
    """The ends of streams that failed, by model."""
    return {model: each.failed for model, each in move.streamed.items() if each.failed}


def test_without_a_spare_device_a_replica_goes_on_until_one_is_free(
    serving: Checkout, hosts: Bed
) -> None:
    move = leave_once_a_device_is_free(serving, hosts)
    assert "no host of pool gpu has as many healthy devices free as it takes, 1" in move.waited_for
    assert move.gone == move.ended
    assert move.left in move.gone
    assert len(move.gone) == 2  # the other one made room
    assert not move.restarted
    while_it_waited = [e for e in move.streamed[move.model].ended if e.ended_s < move.waits_s]
    assert while_it_waited
    assert not [stream for stream in while_it_waited if stream.failed]
    # Its successor cannot start before it has ended: meanwhile nobody serves the model.
    others = failed(move)
    assert all(REFUSED in answer for answer in others.pop(move.model, []))
    assert others == {}


def test_a_bad_device_is_named_and_gets_nothing_until_its_host_is_returned(
    serving: Checkout,
) -> None:
    taken, healthy = ask_for_a_replica_too_many(serving), health(serving)
    bad = {device for device, is_healthy in healthy.items() if not is_healthy}
    assert len(bad) == 2
    assert taken == healthy.keys() - bad
    named = unhealthy_devices(serving)
    assert named.keys() == bad
    assert all("XID 79" in reason for reason in named.values())
    status = serving.slipway("status", check=False)
    assert any(device in status.stdout + status.stderr for device in bad)  # the first of each host
    trust_again(serving)
    until(lambda: is_settled(serving, {"one": 2}))
    assert not unhealthy_devices(serving)


def test_no_device_is_in_two_tasks_after_random_steps_and_changes(serving: Checkout) -> None:
    RandomSteps(serving, random.Random(29)).take()
