"""Accelerators of hosts: their plugin, the job that moves replicas away, and what both need."""

from __future__ import annotations

import dataclasses
import json
import re
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cli.hosts import devices
from components.consul import agent_config as consul
from components.consul.task_roles import task_roles
from components.devices.job import JOB_ID, POLICY_RULES, evacuation_job
from components.hosts.artifacts import of_node
from components.hosts.delivery import delivery_document
from components.metrics.prometheus import prometheus_config, prometheus_job
from components.nomad.agent_config import (
    DEVICE_PLUGIN,
    DEVICE_RECORD,
    DOCKER_SOCKET,
    client_agent,
)
from components.nomad.jobspec import to_json
from slipway.config.artifacts import REQUIREMENTS
from slipway.plan.platform import PlatformPlan
from slipway.planner.engines.vllm import release
from stacks.planning import make_plan
from tests.unit.plan.samples import ARTIFACTS, dev_inputs, hosts_inputs

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "services/devices"
GPU_HOST = {"name": "gpu-0", "address": "10.77.0.41"}
TOOLS = {"consul": "1.22.6", "nomad": "1.11.3", "nomad-autoscaler": "0.5.0"}
WITH_AGENTS = dataclasses.replace(ARTIFACTS, tools={**ARTIFACTS.tools, **TOOLS})
EDGE_HOST = {"name": "edge-0", "address": "10.77.0.31"}


IMAGE = f"sha256:{'0123456789abcdef' * 4}"
IN_CONTAINERS = {"runtime": "container", "image": IMAGE, "image_archive": "images/triton.tar"}


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    """One host with accelerators, and one for the gateway."""
    return planned({})


@pytest.fixture(scope="module")
def in_containers() -> PlatformPlan:
    return planned(IN_CONTAINERS)


def planned(runtime: dict[str, str]) -> PlatformPlan:
    pools = {
        "gpu": {
            "kind": "metal",
            "accelerator": "L40S",
            "accelerators_per_node": 4,
            "hosts": [GPU_HOST],
            "memory": "512GiB",
            "cpu": 64,
            **runtime,
        },
        "edge": {"kind": "metal", "hosts": [EDGE_HOST], "memory": "4GiB", "cpu": 2},
    }
    models = {"qwen2-5-7b": {"pool": "gpu", "replicas": {"min": 1, "max": 2}}}
    inputs = hosts_inputs(pools=pools, gateway={"pool": "edge"}, models=models)
    return make_plan(dataclasses.replace(inputs, artifacts=WITH_AGENTS))


def nomad_client(plan: PlatformPlan, pool: str) -> dict[str, Any]:
    chosen = plan.pool(pool)
    return client_agent(plan, chosen, chosen.hosts[0], drain_timeout_s=60).configuration


def test_the_client_of_a_host_with_accelerators_starts_their_plugin(plan: PlatformPlan) -> None:
    configuration = nomad_client(plan, "gpu")
    plugin = plan.pool("gpu").device_plugin
    assert plugin is not None
    assert configuration["plugin_dir"] == f"@cache@/bundles/{plugin.bundle}/plugin_dir"
    *_, started = configuration["plugin"]
    python, program, vendor, record, figures, _, reader = started[DEVICE_PLUGIN]["args"]
    assert python == f"@cache@/envs/{plugin.environment}/bin/python"
    assert program == f"@cache@/bundles/{plugin.bundle}/device_plugin.py"
    assert vendor == "--vendor=nvidia"
    assert record.endswith(DEVICE_RECORD)
    assert figures == "--figures=10.77.0.41:9400"
    assert reader == f"--reader={plan.peers.prometheus}"


def test_nomad_counts_the_memory_and_cores_of_hosts_with_accelerators(plan: PlatformPlan) -> None:
    client = nomad_client(plan, "gpu")["client"]
    assert client["memory_total_mb"] == 512 * 1024
    assert client["cpu_total_compute"] == 64_000


def test_a_host_without_accelerators_has_no_plugin(plan: PlatformPlan) -> None:
    dev = make_plan(dev_inputs(artifacts=WITH_AGENTS))
    on_dev = [nomad_client(dev, pool.name) for pool in dev.pools]
    for configuration in (nomad_client(plan, "edge"), *on_dev):
        assert "plugin_dir" not in configuration
        assert [list(each) for each in configuration["plugin"]] == [["raw_exec"]]


def test_hosts_of_a_pool_with_an_image_run_containers(
    plan: PlatformPlan, in_containers: PlatformPlan
) -> None:
    configuration = nomad_client(in_containers, "gpu")
    options = configuration["client"]["options"]
    assert options["driver.allowlist"] == "raw_exec,docker"
    (docker,) = [each["docker"] for each in configuration["plugin"] if "docker" in each]
    (settings,) = docker["config"]
    assert settings["endpoint"] == f"unix://{DOCKER_SOCKET}"
    program = (ROOT / "services/operator/delivery/containers.py").read_text()
    assert f'OWN_SOCKET = "{DOCKER_SOCKET}"' in program
    assert settings["allow_caps"] == []
    assert settings["allow_runtimes"] == ["runc", "nvidia"]
    assert settings["gc"] == [{"image": False}]  # or the next start would have none
    # A pool that goes back to bare engines still has containers for a while.
    assert nomad_client(plan, "gpu")["plugin"] == configuration["plugin"]
    on_edge = nomad_client(in_containers, "edge")
    assert on_edge["client"]["options"]["driver.allowlist"] == "raw_exec"


def test_a_host_whose_engines_run_in_an_image_gets_that_and_no_engines(
    plan: PlatformPlan, in_containers: PlatformPlan
) -> None:
    assert in_containers.ssh is not None
    (gpu,) = in_containers.pool("gpu").hosts
    document = delivery_document(in_containers, in_containers.ssh, gpu.name)
    schema = json.loads((ROOT / "schemas/delivery.schema.json").read_text())
    jsonschema.validate(document["image"], schema["properties"]["image"])
    assert document["image"] == {
        "name": IMAGE,
        "archive": "images/triton.tar",
        "vendor": "nvidia",
        "environments": [name for name in document["artifacts"] if "/weights-" in name],
    }
    assert len(document["image"]["environments"]) == 1  # fetched by the hosts, from a bucket
    bare = delivery_document(plan, in_containers.ssh, gpu.name)
    assert "image" not in bare
    left_out = {name.rpartition("-")[0] for name in {*bare["artifacts"]} - {*document["artifacts"]}}
    assert left_out == {"envs/triton", "envs/vllm_cuda"}
    assert "packages" not in document  # Triton's Python is the image's


def test_what_the_client_starts_is_there_and_can_be_executed() -> None:
    assert (SERVICE / "device_plugin.py").is_file()
    assert (SERVICE / "evacuate.py").is_file()
    (executable,) = (SERVICE / "plugin_dir").iterdir()
    assert executable.name == DEVICE_PLUGIN
    assert executable.stat().st_mode & stat.S_IXUSR


def test_hosts_get_what_they_run(plan: PlatformPlan) -> None:
    plugin = plan.pool("gpu").device_plugin
    assert plugin is not None
    on_gpu = of_node(plan, plan.pool("gpu").hosts[0])
    on_edge = of_node(plan, plan.pool("edge").hosts[0])
    assert {f"bundles/{plugin.bundle}", f"envs/{plugin.environment}"} <= set(on_gpu)
    assert f"bundles/{plugin.bundle}" in on_edge  # the job that moves replicas
    assert f"envs/{plugin.environment}" not in on_edge


def test_the_job_that_moves_replicas_may_only_look_and_stop_allocations(
    plan: PlatformPlan,
) -> None:
    assert plan.device_plugin is not None
    job = json.loads(to_json(evacuation_job(plan, plan.device_plugin)))["Job"]
    assert (job["ID"], job["NodePool"]) == (JOB_ID, "edge")
    (task,) = job["TaskGroups"][0]["Tasks"]
    assert task["Config"]["args"][-1].endswith("/evacuate.py")
    rights = set(re.findall(r'"([a-z-]+)"', POLICY_RULES.partition("capabilities")[2]))
    assert rights == {"read-job", "alloc-lifecycle", "read"}
    assert task_roles(plan)[JOB_ID] == "slipway-evacuation"


def test_a_host_is_asked_to_look_again_where_its_plugin_keeps_its_record(
    plan: PlatformPlan,
) -> None:
    assert devices.are_watched(plan, "gpu-0")
    assert not devices.are_watched(plan, "edge-0")
    record = (SERVICE / "health/record.py").read_text()
    assert f'{{self.file.name}}{devices.REQUEST_SUFFIX}"' in record


def test_a_delivery_says_what_the_drivers_of_the_host_must_show(plan: PlatformPlan) -> None:
    assert plan.ssh is not None
    document = delivery_document(plan, plan.ssh, "gpu-0")
    document["ssh"]["host_key"] = "ssh-ed25519 AAAA"  # that the sample does not know
    jsonschema.validate(document, json.loads((ROOT / "schemas/delivery.schema.json").read_text()))
    assert document["accelerators"] == {
        "vendor": "nvidia",
        "count": 4,
        "names": ["NVIDIA L40S"],
        "memory_mib": 45776,
        "driver": "580.65.06",
    }
    assert "accelerators" not in delivery_document(plan, plan.ssh, "edge-0")


def test_the_least_driver_is_that_of_the_cuda_that_the_pinned_torch_is_built_for() -> None:
    pins = (ROOT / REQUIREMENTS["vllm"]).read_text()
    assert f"\ntorch=={release.TORCH}\n" in pins
    assert release.CUDA in release.LEAST_DRIVER_OF_CUDA


def test_prometheus_scrapes_the_plugins_of_hosts_with_devices_only(plan: PlatformPlan) -> None:
    jobs = {
        each["job_name"]: each for each in yaml.safe_load(prometheus_config(plan))["scrape_configs"]
    }
    keep, _, port = jobs["devices"]["relabel_configs"]
    assert (keep["source_labels"], keep["action"]) == (["__meta_consul_metadata_devices"], "keep")
    assert port["replacement"] == "$1:9400"
    gpu, edge = plan.pool("gpu").hosts[0], plan.pool("edge").hosts[0]
    assert consul.client_agent(plan, gpu).configuration["node_meta"] == {"devices": "nvidia"}
    assert "node_meta" not in consul.client_agent(plan, edge).configuration
    dev = make_plan(dev_inputs(artifacts=WITH_AGENTS))
    assert "job_name: devices" not in prometheus_config(dev)


def test_prometheus_has_alerts_on_devices_where_there_are_devices(plan: PlatformPlan) -> None:
    def rule_files(of: PlatformPlan) -> tuple[list[str], list[str]]:
        (task,) = prometheus_job(of).group.tasks
        named = yaml.safe_load(prometheus_config(of)).get("rule_files", [])
        return named, [file.path for file in task.files if "alerts" in file.path]

    both = ["gateway_alerts.yml", "device_alerts.yml"]
    assert rule_files(plan) == (both, [f"local/{name}" for name in both])
    dev = make_plan(dev_inputs(artifacts=WITH_AGENTS))
    assert rule_files(dev) == (both[:1], [f"local/{name}" for name in both[:1]])
