"""The resources of the whole platform before the policies, without Pulumi."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest

from slipway.config.inputs import load_inputs
from slipway.planner.platform import make_plan
from slipway.planner.reports.facts import fleet_facts
from stacks.offline import as_resource
from stacks.platform import Platform
from stacks.recording import Recording
from stacks.targets import load
from tests.components.platform_plan import platform_plan
from tests.components.recording import record
from tests.unit.plan.samples import ROOT

REPORT = json.loads((ROOT / "schemas/policy-report.schema.json").read_text())


@pytest.fixture(scope="module")
def recording() -> Recording:
    plan = platform_plan(simulated=("sim",), in_turn=("sim",))
    return record(lambda: Platform("platform", plan, load(plan.target)), preview=True)


def report(recording: Recording, *arguments: str) -> dict[str, Any]:
    """What the policies find in an offline preview."""
    return judged([as_resource(found) for found in recording.depth_first()], *arguments)


def judged(resources: Sequence[Any], *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, ROOT / "policies" / "check.py", "--json", *arguments],
        input=json.dumps({"resources": list(resources)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, REPORT, cls=jsonschema.Draft202012Validator)
    assert found["blocked"] == bool(done.returncode)
    return found


def test_an_offline_preview_of_dev_keeps_every_rule(recording: Recording) -> None:
    found = report(recording)
    assert found["findings"] == []
    assert found["stage"] == "development"
    assert found["rules"] >= 25


def test_every_rule_can_be_evaluated_on_the_same_platform_in_production(
    recording: Recording,
) -> None:
    found = report(recording, "--environment", "prod")
    assert {finding["outcome"] for finding in found["findings"]} == {"violated"}
    assert {finding["rule"] for finding in found["findings"]} == {
        "single-replica",
        "single-server",
        "unprotected",
        "undeclared-load",  # of the simulated model
    }


@pytest.mark.parametrize(
    ("name", "fact", "rule"),
    [
        ("platform", "budget", "over-budget"),
        ("platform", "budget", "scaling-above-budget"),
        ("platform", "cost", "over-budget"),
        ("platform", "cost", "no-budget"),
        ("model-phi-4", "capacity", "slo-infeasible"),
        ("model-phi-4", "capacity", "replicas-below-load"),
        ("model-phi-4", "capacity", "no-warm-capacity"),
        ("model-phi-4", "goal", "undeclared-load"),
        ("pool-l4", "capacity", "pool-overcommitted"),
    ],
)
def test_a_missing_fact_does_not_count_as_satisfied(name: str, fact: str, rule: str) -> None:
    """The facts are those that the components of every built environment carry too."""
    resources = fleet_facts(make_plan(load_inputs(ROOT, "aws")))
    arguments = ("--environment", "aws", "--skip=unprotected", "--skip=change-over-budget")
    assert "could not be evaluated" not in str(judged(resources, *arguments))
    (resource,) = [each for each in resources if each["name"] == name]
    facts: Any = resource["inputs"]
    del facts["facts"][fact]
    outcomes = {
        finding["rule"]: finding["outcome"]
        for finding in judged(resources, *arguments)["findings"]
        if finding["resource"] == name
    }
    assert outcomes.get(rule) == "could not be evaluated"
