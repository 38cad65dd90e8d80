"""The pack's policies with the SDK's own properties, which raise where a value is unknown."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cases import ALL_CASES
from cases import TODAY, model, platform
from pulumi_pack import FOLDER, pack_policies, plain
from pulumi_policy import (
    EnforcementLevel,
    PolicyCustomTimeouts,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy
from rules import RULES
from rules.facts import UNKNOWN
from rules.rule import Resource

POLICIES = pack_policies(today=TODAY)


def on_the_wire(value: Any) -> Any:
    """UNKNOWN as the engine sends it."""
    if isinstance(value, Mapping):
        return {key: on_the_wire(each) for key, each in value.items()}
    if isinstance(value, list):
        return [on_the_wire(each) for each in value]
    return UNKNOWN_STRING_VALUE if value is UNKNOWN else value


def arguments(resource: Resource, stack: str, config: Mapping[str, Any]) -> ResourceValidationArgs:
    options = PolicyResourceOptions(
        protect=bool(resource.protect),
        ignore_changes=[],
        delete_before_replace=None,
        aliases=[],
        custom_timeouts=PolicyCustomTimeouts(0, 0, 0),
        additional_secret_outputs=[],
    )
    return ResourceValidationArgs(
        resource.type,
        unknown_checking_proxy(on_the_wire(resource.props)),
        f"urn:pulumi:{stack}::slipway::{resource.type}::{resource.name}",
        resource.name,
        options,
        None,
        config,
    )


def reports(
    resource: Resource,
    stack: str = "prod",
    policies: list[ResourceValidationPolicy] = POLICIES,
    **config: Any,
) -> dict[str, list[str]]:
    """Policy -> its messages, of those that report something."""
    found: dict[str, list[str]] = {}
    for policy in policies:
        policy.validate(
            arguments(resource, stack, config),
            lambda message, _urn=None, name=policy.name: found.setdefault(name, []).append(message),
        )
    return found


def level(name: str) -> EnforcementLevel:
    (policy,) = [policy for policy in POLICIES if policy.name == name]
    assert policy.enforcement_level is not None
    return policy.enforcement_level


def folder_with_waiver(folder: Path, expires: datetime.date) -> Path:
    (folder / "settings.yaml").write_text((FOLDER / "settings.yaml").read_text())
    (folder / "waivers.yaml").write_text(
        "waivers:\n  - {rule: spot-floor, resource: model-chat, owner: ada, reason: a demo,"
        f" expires: {expires}}}\n"
    )
    return folder


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_violation_is_reported_by_the_policy_of_its_rule_or_as_advice(rule: Any) -> None:
    case = ALL_CASES[rule.id][0]
    found = reports(case.build(case.violating[0]), usd_per_hour_before=90)
    name = rule.id if rule.id in found else "advice"
    assert level(name) is EnforcementLevel[rule.severity.production.name]
    if name == "advice":
        assert any(message.startswith(f"{rule.id}: ") for message in found[name])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_an_unknown_is_reported_as_mandatory_instead_of_skipped(rule: Any) -> None:
    case = ALL_CASES[rule.id][0]
    unknown = next((changes for changes in case.unknown if UNKNOWN in changes.values()), None)
    if unknown is None:  # the engine always says whether a resource is protected
        assert rule.id == "unprotected"
        return
    found = reports(case.build(unknown), usd_per_hour_before=90)
    assert any(message.startswith(f"{rule.id}: ") for message in found["could-not-be-evaluated"])


def test_what_could_not_be_evaluated_and_an_expired_waiver_block() -> None:
    assert level("could-not-be-evaluated") is EnforcementLevel.MANDATORY
    assert level("expired-waiver") is EnforcementLevel.MANDATORY
    assert level("waived") is EnforcementLevel.ADVISORY


def test_a_resource_that_keeps_every_rule_is_not_reported() -> None:
    assert reports(model({})) == {}
    assert reports(platform({}), usd_per_hour_before=90) == {}


def test_the_stage_follows_the_stack_of_the_resource() -> None:
    assert set(reports(platform({"servers": 1}), "prod", usd_per_hour_before=90)) == {
        "single-server"
    }
    assert set(reports(platform({"servers": 1}), "staging", usd_per_hour_before=90)) == {"advice"}
    assert reports(platform({"servers": 1}), "dev", usd_per_hour_before=90) == {}


def test_a_waived_finding_is_advice_with_its_owner_and_date(tmp_path: Path) -> None:
    policies = pack_policies(folder=folder_with_waiver(tmp_path, TODAY), today=TODAY)
    found = reports(model({"capacity.market": "spot"}), policies=policies)
    assert set(found) == {"waived"}
    assert f"(ada, until {TODAY}: a demo)" in found["waived"][0]


def test_an_expired_waiver_is_reported_on_the_platform_once(tmp_path: Path) -> None:
    yesterday = TODAY - datetime.timedelta(days=1)
    policies = pack_policies(folder=folder_with_waiver(tmp_path, yesterday), today=TODAY)
    assert set(reports(model({"capacity.market": "spot"}), policies=policies)) == {"spot-floor"}
    found = reports(platform({}), policies=policies, usd_per_hour_before=90)
    assert set(found) == {"expired-waiver"}
    assert len(found["expired-waiver"]) == 1


def test_properties_become_plain_with_their_unknowns_marked() -> None:
    given = {"a": [1, UNKNOWN_STRING_VALUE, {"b": UNKNOWN_STRING_VALUE}], "c": "text", "d": None}
    assert plain(unknown_checking_proxy(given)) == {
        "a": [1, UNKNOWN, {"b": UNKNOWN}],
        "c": "text",
        "d": None,
    }


def test_a_mistake_in_the_waivers_ends_the_pack_with_a_sentence(tmp_path: Path) -> None:
    pack = tmp_path / "policies"
    shutil.copytree(FOLDER, pack, ignore=shutil.ignore_patterns("tests", ".venv", "__pycache__"))
    (pack / "waivers.yaml").write_text("waivers: [{rule: spot-floor}]")
    command = [sys.executable, str(pack)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("policies/waivers.yaml: waivers[0]: needs exactly the keys")
    assert "Traceback" not in done.stderr
