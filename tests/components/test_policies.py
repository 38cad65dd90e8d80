"""The resources of the whole platform before the policies, without Pulumi."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import pytest

from slipway.inputs import load_inputs
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import Server
from slipway.planner.reports.facts import fleet_facts
from stacks.offline import as_resource
from stacks.planning import make_plan
from stacks.platform import Platform
from stacks.recording import Recording
from stacks.targets import load
from tests.components.platform_plan import TOOLS, platform_plan
from tests.components.recording import record
from tests.unit.plan.samples import ROOT

AWS = make_plan(load_inputs(ROOT, "aws"))
FLEET: list[Any] = list(fleet_facts(AWS))
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


# Facts that no rule reads: they are for the pull-request comment, or part of a message.
SHOWN_ONLY = {
    "platform": {"environment", "target", "pools", "models", "tools"},
    "pool": {"pool", "nodes", "memory_bytes", "cpu_mhz"}
    | {f"capacity.{fact}" for fact in ("instance", "market", "nodes_min", "accelerators_used")},
    "model": {
        "model",
        "aliases",
        "pool",
        "spec_digest",
        "source.name",
        "scaling.cooldown_s",
        "load.requests_per_s",
    }
    | {f"memory.{fact}" for fact in ("parameters", "weights_bytes", "kv_bytes_per_token")}
    | {f"memory.{fact}" for fact in ("kv_cache_bytes", "overhead_bytes", "total_bytes")}
    | {f"capacity.{fact}" for fact in ("ttft_ms", "tpot_ms")}
    | {f"capacity.layout.{fact}" for fact in ("pipeline", "data", "expert")}
    | {"replica.memory_bytes", "route.stream_idle_timeout_s"},
}


def test_a_fact_that_is_left_out_is_never_taken_for_satisfied() -> None:
    """Every single fact of a fleet, left out of a copy of its resource: a rule says that it could
    not be evaluated. The components of every built environment carry the same facts."""
    (platform,) = [each for each in FLEET if each["name"] == "platform"]
    (pool,) = [each for each in FLEET if each["name"] == "pool-l4"]
    (model,) = [each for each in FLEET if each["name"] == "model-phi-4"]
    copies = [
        {**resource, "name": f"{kind} without {path}", "inputs": {"facts": left}}
        for kind, resource in (("platform", platform), ("pool", pool), ("model", model))
        for path, left in without_each_fact(resource["inputs"]["facts"])
    ]
    arguments = ("--environment", "aws", "--skip=unprotected", "--usd-per-hour-before=1")
    assert "could not be evaluated" not in str(judged(FLEET, *arguments))
    noticed = {
        finding["resource"]
        for finding in judged([*FLEET, *copies], *arguments)["findings"]
        if finding["outcome"] == "could not be evaluated"
    }
    shown_only = {f"{kind} without {fact}" for kind, facts in SHOWN_ONLY.items() for fact in facts}
    assert {copy["name"] for copy in copies} - noticed == shown_only


def without_each_fact(facts: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(dotted path, the facts without it), for every group of facts and every fact in it."""
    for key, value in facts.items():
        yield key, {other: each for other, each in facts.items() if other != key}
        if isinstance(value, dict) and key not in {"pools", "tools", "engine_args"}:
            for path, left in without_each_fact(value):
                yield f"{key}.{path}", {**facts, key: left}


def test_the_components_of_a_fleet_carry_the_facts_that_its_plan_is_judged_by() -> None:
    plan = somewhere(dataclasses.replace(AWS, tools=TOOLS))
    recording = record(lambda: Platform("platform", plan, load("dev")), preview=True)
    carried = {
        each["name"]: each["inputs"]["facts"]
        for each in map(as_resource, recording.depth_first())
        if each["type"] in {resource["type"] for resource in FLEET}
    }
    assert carried == {each["name"]: each["inputs"]["facts"] for each in fleet_facts(plan)}


def somewhere(value: Any) -> Any:
    """The same plan once its hosts exist: endpoints and servers have addresses."""
    if isinstance(value, Endpoint):
        return dataclasses.replace(value, host=value.host or "10.40.0.7")
    if isinstance(value, Server):
        return dataclasses.replace(value, address="10.40.0.7")
    if isinstance(value, tuple):
        return tuple(map(somewhere, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: somewhere(part) for name, part in parts.items()})
    return value
