"""`python policies/check.py`: what it prints and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import CANARY, keys, model, platform
from rules.facts import UNKNOWN
from rules.rule import Resource

CHECK = Path(__file__).parents[1] / "check.py"
WAIVERS = """\
waivers:
  - {{rule: {rule}, resource: "*", owner: ada, reason: a demo, expires: {expires}}}
"""


def document(*resources: Resource) -> dict[str, Any]:
    return {
        "resources": [
            {
                "type": resource.type,
                "name": resource.name,
                "parent": "",
                "inputs": resource.props,
                "protect": resource.protect,
            }
            for resource in resources
        ]
    }


def check(given: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    text = given if isinstance(given, str) else json.dumps(given, default=_marked)
    return subprocess.run(
        [sys.executable, str(CHECK), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def _marked(value: object) -> dict[str, bool]:
    assert value is UNKNOWN
    return {"<unknown>": True}


def report(given: Any, *arguments: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(check(given, "--json", *arguments).stdout)
    return parsed


# Its prices do not grow old.
FINE = document(
    platform({"budget.usd_per_hour_per_change": None, "cost.price_date": ""}), model({})
)


def test_what_keeps_every_rule_passes() -> None:
    done = check(FINE)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("passed: ")
    assert "no findings" in done.stdout


def test_a_mandatory_violation_blocks_and_says_what_to_do() -> None:
    done = check(document(model({"replica.drain_timeout_s": 10})))
    assert done.returncode == 1
    assert "mandatory  drain-below-longest-stream: model-chat drains for 10 s" in done.stdout
    assert "fix: Raise `timeouts.drain_s`" in done.stdout
    assert "docs/policies.md#drain-below-longest-stream" in done.stdout


def test_advice_alone_does_not_block() -> None:
    done = check(document(model({"capacity.utilization": 0.1})))
    assert done.returncode == 0
    assert "advisory  idle-accelerators" in done.stdout


@pytest.mark.parametrize("unknown", [UNKNOWN, "04da6b54-80e4-46f7-96ec-b56ff0331ba9"])
def test_an_unknown_blocks_in_every_stage(unknown: object) -> None:
    given = document(model({"capacity.utilization": unknown}))
    for environment in ("dev", "prod"):
        found = report(given, "--environment", environment)
        assert found["blocked"]
        assert found["counts"]["could_not_be_evaluated"] == 1


def test_the_stage_is_that_of_the_platforms_own_name() -> None:
    unlimited = {f"budget.{key}": None for key in ("usd_per_hour", "usd_per_hour_at_most")}
    per_change = {"budget.usd_per_hour_per_change": None}
    facts = {"environment": "dev", "servers": 1, **unlimited, **per_change}
    assert report(document(platform(facts)))["stage"] == "development"
    assert not report(document(platform(facts)))["blocked"]
    assert report(document(platform(facts)), "--environment", "x")["stage"] == "production"
    assert report(document(model({})))["stage"] == "production"


def test_a_waiver_lets_pass_and_is_shown_with_its_owner_and_date(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(WAIVERS.format(rule="spot-floor", expires="2999-01-31"))
    given = document(model({"capacity.market": "spot"}))
    assert check(given).returncode == 1
    done = check(given, f"--waivers={path}")
    assert done.returncode == 0
    assert "waived  spot-floor: model-chat" in done.stdout
    assert "ada, until 2999-01-31: a demo" in done.stdout


def test_an_expired_waiver_fails_even_where_it_covers_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(WAIVERS.format(rule="spot-floor", expires="2020-01-31"))
    done = check(FINE, f"--waivers={path}")
    assert done.returncode == 1
    assert "expired waiver  spot-floor of *: ada, until 2020-01-31" in done.stdout


def test_a_waiver_that_covers_nothing_is_named_and_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(WAIVERS.format(rule="spot-floor", expires="2999-01-31"))
    found = report(FINE, f"--waivers={path}")
    assert not found["blocked"]
    assert [waiver["rule"] for waiver in found["unused_waivers"]] == ["spot-floor"]


def test_a_rule_that_is_skipped_is_named() -> None:
    given = document(model({"capacity.market": "spot"}))
    done = check(given, "--skip=spot-floor")
    assert done.returncode == 0
    assert "not judged  spot-floor" in done.stdout
    assert report(given)["skipped_rules"] == []
    assert check(given, "--skip=spot-flor").returncode == 2


def test_the_cost_before_a_change_is_an_argument() -> None:
    given = document(platform({}))
    assert report(given)["counts"]["could_not_be_evaluated"] == 1
    assert report(given, "--usd-per-hour-before=90")["counts"]["could_not_be_evaluated"] == 0
    assert report(given, "--usd-per-hour-before=50")["counts"]["mandatory"] == 1


def test_the_first_purchase_of_an_environment_is_judged_by_its_budget_alone() -> None:
    assert report(document(platform({})), "--usd-per-hour-before=0")["counts"]["mandatory"] == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ({"steps": []}, "slipway preview --offline --json"),
        ({"resources": [{"type": "a:b:C"}]}, "resources[0]"),
        ({"resources": ["text"]}, "resources[0]"),
        ({"resources": [{"type": "slipway:index:Platform", "name": "p", "inputs": 7}]}, "[0]"),
    ],
)
def test_an_input_of_another_form_is_wrong_usage(given: Any, said: str) -> None:
    done = check(given)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_secret_that_is_found_is_not_printed() -> None:
    given = document(keys({"keys.0.value": CANARY}))
    for done in (check(given), check(given, "--json")):
        assert "secret-in-kv" in done.stdout
        assert CANARY not in done.stdout + done.stderr
