"""The resources of the whole platform before the policies, without Pulumi."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest

from stacks.offline import as_resource
from stacks.platform import Platform
from stacks.recording import Recording
from stacks.targets import TARGETS
from tests.components.platform_plan import platform_plan
from tests.components.recording import record
from tests.unit.plan.samples import ROOT

REPORT = json.loads((ROOT / "schemas/policy-report.schema.json").read_text())


@pytest.fixture(scope="module")
def recording() -> Recording:
    plan = platform_plan(simulated=("sim",), in_turn=("sim",))
    return record(lambda: Platform("platform", plan, TARGETS[plan.target]), preview=True)


def report(recording: Recording, *arguments: str) -> dict[str, Any]:
    """What the policies find in an offline preview."""
    resources = [as_resource(found) for found in recording.depth_first()]
    done = subprocess.run(
        [sys.executable, ROOT / "policies" / "check.py", "--json", *arguments],
        input=json.dumps({"resources": resources}),
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
