"""The platform's jobs where nobody knows the addresses of nodes at preview."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from components.node_pool.node_document import gate_document
from components.nomad.addresses import IN_FILES
from components.nomad.jobspec import File, Job
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.components.platform_jobs import files, platform_jobs
from tests.components.platform_plan import TOOLS
from tests.unit.plan.samples import ROOT

PLATFORM = ("envoy", "xds", "prometheus", "nomad-autoscaler")


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return dataclasses.replace(make_plan(load_inputs(ROOT, "metal")), tools=TOOLS)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


@pytest.fixture(scope="module")
def jobs(plan: PlatformPlan) -> dict[str, Job]:
    return platform_jobs(plan)


def test_no_node_of_a_fleet_has_an_address_yet(plan: PlatformPlan) -> None:
    assert not any(pool.hosts for pool in plan.pools)
    assert plan.gateway.clients.host == ""


def test_the_gate_of_a_pool_waits_for_its_least_number_of_nodes(plan: PlatformPlan) -> None:
    nomad = plan.nomad.at("10.40.0.1")
    started = dataclasses.replace(plan, operator=dataclasses.replace(plan.operator, nomad=nomad))
    counts = {pool.name: gate_document(started, pool)["count"] for pool in plan.pools}
    assert counts == {"l40s": 3, "h100": 2, "mi300x": 1}


def test_every_job_of_a_fleet_is_placed_by_its_node_pool_alone(jobs: dict[str, Job]) -> None:
    for job in jobs.values():
        assert "Constraints" not in job.render()["Job"]
        assert job.node_pool


@pytest.mark.parametrize("name", PLATFORM)
def test_a_platform_job_takes_the_address_of_its_node(jobs: dict[str, Job], name: str) -> None:
    texts = [*strings(jobs[name].render()), *files(jobs[name]).values()]
    assert any("meta.address" in text for text in texts)
    # Neither "http://:8500" nor "--listen :18000" nor an empty field.
    empty = re.compile(r'//:\d|^:\d|address": ""')
    assert [text for text in texts if empty.search(text)] == []


def test_files_with_such_an_address_are_what_their_programs_read(jobs: dict[str, Job]) -> None:
    filled = {
        (name, path): content.replace(IN_FILES, "10.40.0.7")
        for name in PLATFORM
        for path, content in files(jobs[name]).items()
    }
    bootstrap = json.loads(filled["envoy", "local/envoy.json"])
    (metrics,) = bootstrap["static_resources"]["listeners"]
    assert metrics["address"]["socket_address"]["address"] == "10.40.0.7"
    assert bootstrap["node"]["id"] == "gateway-10.40.0.7"
    config = yaml.safe_load(filled["prometheus", "local/prometheus.yml"])
    assert "10.40.0.7:8501" in yaml.safe_dump(config)
    web = yaml.safe_load(filled["prometheus", "local/web.yml"])
    assert "10.40.0.7" in web["tls_server_config"]["client_allowed_sans"]
    proxy = json.loads(filled["nomad-autoscaler", "local/envoy.json"])
    served, _ = proxy["static_resources"]["listeners"]
    assert served["address"]["socket_address"] == {"address": "10.40.0.7", "port_value": 8081}
    autoscaler = json.loads(filled["nomad-autoscaler", "local/autoscaler.json"])
    assert autoscaler["http"]["bind_address"] == "127.0.0.1"


def test_a_file_holds_no_template_but_those_it_names() -> None:
    File(
        path="local/a", content="<% env `meta.address` %>", templates=("<% env `meta.address` %>",)
    )
    with pytest.raises(ValueError, match="template"):
        File(path="local/a", content="<% key `secret` %>", templates=("<% env `meta.address` %>",))
