"""`slipway preview -s dev --offline --json` of this very checkout, against the renderers."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cli.app import app
from components.nomad.jobspec import to_json
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from stacks.platform import Platform
from stacks.targets import load
from tests.components.platform_jobs import files, platform_jobs
from tests.components.recording import record
from tests.components.test_platform import AUTHORITY, LATE
from tests.unit.plan.samples import ROOT

COMMAND = ["preview", "-s", "dev", "--offline", "--json"]


@pytest.fixture(scope="module")
def printed() -> str:
    result = CliRunner().invoke(app, COMMAND)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def preview(printed: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(printed)
    return document


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return make_plan(load_inputs(ROOT, "dev"))


def test_it_follows_its_schema(preview: dict[str, Any]) -> None:
    jsonschema.validate(
        preview, json.loads((ROOT / "schemas/offline-preview.schema.json").read_text())
    )


@pytest.mark.thorough
def test_a_second_one_is_the_same_to_the_byte(printed: str) -> None:
    assert CliRunner().invoke(app, COMMAND).stdout == printed


def test_it_has_every_resource_of_the_program_each_after_its_parent(
    preview: dict[str, Any], plan: PlatformPlan
) -> None:
    def build() -> None:
        Platform("platform", plan, load(plan.target))

    urns = [found["urn"] for found in preview["resources"]]
    assert sorted(urns) == sorted(record(build, preview=True).by_urn)
    seen = {""}
    for found in preview["resources"]:
        assert found["parent"] in seen
        seen.add(found["name"])


def test_it_has_every_job_and_every_file_in_one(
    preview: dict[str, Any], plan: PlatformPlan
) -> None:
    found = preview["documents"]
    jobs = platform_jobs(plan)
    assert {path for path in found if path.startswith("jobs/") and path.count("/") == 1} == {
        f"jobs/{name}.json" for name in jobs
    }
    for name, job in jobs.items():
        assert json.loads(found[f"jobs/{name}.json"]) == json.loads(to_json(job))
        for task in job.group.tasks:
            for file in task.files:
                assert found[f"jobs/{name}/{task.name}/{file.path}"] == file.content
    embedded = [path for path in found if path.startswith("jobs/") and path.count("/") > 1]
    embedded = [path for path in embedded if "/secrets/" not in path]
    assert len(embedded) == sum(len(files(job)) for job in jobs.values()) == 12


def test_it_has_the_configuration_of_every_agent(
    preview: dict[str, Any], plan: PlatformPlan
) -> None:
    hosts = [host.name for host in plan.servers]
    hosts += [node.name for pool in plan.pools for node in pool.hosts]
    agents = {
        f"hosts/{host}/{agent}/config.json" for host in hosts for agent in ("consul", "nomad")
    }
    publishers = {f"hosts/{server.name}/workload-keys/config.json" for server in plan.servers}
    agents |= publishers
    assert {path for path in preview["documents"] if path.startswith("hosts/")} == agents
    for path in agents - publishers:
        assert json.loads(preview["documents"][path])["datacenter"] == "dev"


def test_only_what_secrets_reach_is_unknown(preview: dict[str, Any]) -> None:
    unknown = {
        key
        for found in preview["resources"]
        for key, value in found["inputs"].items()
        if "<unknown>" in json.dumps(value)
    }
    assert unknown == LATE | AUTHORITY
