"""Every rule against resources that violate it, follow it, cannot be judged, or are waived."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence

import pytest
from aws_cases import ALL_CASES, recorded_resources
from cases import CANARY, SETTINGS, TODAY, Build, Case, Changes, platform
from judgement import Finding, Outcome, judge
from rules import RULES
from rules.facts import Unevaluable
from rules.rule import Resource, Rule, Stage
from waivers import Waiver

BY_ID = {rule.id: rule for rule in RULES}
CASES_OF_RULES = [
    pytest.param(BY_ID[name], case, id=f"{name}-{index}")
    for name, cases in ALL_CASES.items()
    for index, case in enumerate(cases)
]
of_every_rule = pytest.mark.parametrize(("rule", "case"), CASES_OF_RULES)


def found(rule: Rule, resource: Resource, waivers: Sequence[Waiver] = ()) -> list[Finding]:
    """In production, where no rule is off."""
    return list(judge([rule], resource, Stage.PRODUCTION, waivers))


def outcomes(rule: Rule, build: Build, changes: Changes) -> set[Outcome]:
    return {finding.outcome for finding in found(rule, build(changes))}


def waiver(rule: Rule, resource: Resource, *, days: int = 1) -> Waiver:
    return Waiver(
        rule=rule.id,
        resource=resource.name,
        owner="ada",
        reason="a demo",
        expires=TODAY + datetime.timedelta(days=days),
    )


def test_every_rule_has_its_cases() -> None:
    assert {rule.id for rule in RULES} == set(ALL_CASES)
    assert len(RULES) == len(BY_ID) >= 25


@pytest.mark.parametrize("variant", ["endpoints", "nat"])
def test_no_rule_objects_to_a_recorded_environment_on_aws(variant: str) -> None:
    resources = recorded_resources(variant)
    assert [
        (resource.name, finding.message)
        for resource in resources
        for finding in judge(RULES, resource, Stage.PRODUCTION, [])
    ] == []
    assert sum(resource.type.startswith("aws:") for resource in resources) > 100


def test_every_type_a_rule_names_is_a_known_form_of_token() -> None:
    tokens = {type_ for rule in RULES for type_ in rule.types}
    assert all(len(token.split(":")) == 3 for token in tokens)


@of_every_rule
def test_a_violating_resource_is_found(rule: Rule, case: Case) -> None:
    assert case.violating
    for changes in case.violating:
        assert outcomes(rule, case.build, changes) == {Outcome.VIOLATED}, changes


@of_every_rule
def test_a_resource_that_keeps_the_rule_is_not_found(rule: Rule, case: Case) -> None:
    for changes in ({}, *case.passing):
        assert outcomes(rule, case.build, changes) == set(), changes


@of_every_rule
def test_what_is_not_known_could_not_be_evaluated_and_blocks(rule: Rule, case: Case) -> None:
    assert case.unknown
    for changes in case.unknown:
        findings = found(rule, case.build(changes))
        assert Outcome.UNKNOWN in {finding.outcome for finding in findings}, changes
        assert any(finding.blocks for finding in findings)


@of_every_rule
def test_a_waived_finding_is_shown_and_does_not_block(rule: Rule, case: Case) -> None:
    for changes in (*case.violating, *case.unknown):
        resource = case.build(changes)
        findings = found(rule, resource, [waiver(rule, resource)])
        assert {finding.outcome for finding in findings} == {Outcome.WAIVED}
        assert {finding.waiver for finding in findings} == {waiver(rule, resource)}
        assert not any(finding.blocks for finding in findings)


@of_every_rule
def test_an_expired_waiver_covers_nothing(rule: Rule, case: Case) -> None:
    resource = case.build(case.violating[0])
    findings = found(rule, resource, [waiver(rule, resource, days=-1)])
    assert {finding.outcome for finding in findings} == {Outcome.VIOLATED}


@of_every_rule
def test_no_message_holds_a_secret(rule: Rule, case: Case) -> None:
    for changes in (*case.violating, *case.unknown):
        for finding in found(rule, case.build(changes)):
            assert CANARY not in finding.message
            assert "hunter2" not in finding.message


def test_the_canary_is_among_the_cases_at_all() -> None:
    assert CANARY in str(ALL_CASES["secret-in-job"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_why_and_what_to_do(rule: Rule) -> None:
    assert rule.title
    assert not rule.title.endswith(".")
    assert rule.why.endswith(".")
    assert rule.fix.endswith(".")


def test_a_waiver_covers_its_last_day_and_only_its_rule_and_resource() -> None:
    rule, other = RULES[0], RULES[1]
    resource = ALL_CASES[rule.id][0].build(ALL_CASES[rule.id][0].violating[0])
    last_day = waiver(rule, resource, days=0)
    assert not last_day.has_expired(TODAY)
    assert found(rule, resource, [last_day])[0].outcome is Outcome.WAIVED
    for wrong in (
        dataclasses.replace(last_day, rule=other.id),
        dataclasses.replace(last_day, resource="model-other"),
    ):
        assert found(rule, resource, [wrong])[0].outcome is Outcome.VIOLATED
    pattern = dataclasses.replace(last_day, resource="model-*")
    assert found(rule, resource, [pattern])[0].outcome is Outcome.WAIVED


def test_the_severity_follows_the_stage_and_a_rule_that_is_off_is_not_judged() -> None:
    rule = BY_ID["single-server"]
    resource = platform({"servers": 1})
    levels = {
        stage: [
            (finding.level.value, finding.blocks) for finding in judge([rule], resource, stage, [])
        ]
        for stage in Stage
    }
    assert levels == {
        Stage.DEVELOPMENT: [],
        Stage.STAGING: [("advisory", False)],
        Stage.PRODUCTION: [("mandatory", True)],
    }


@pytest.mark.parametrize("version", [2, None])
def test_facts_of_another_version_could_not_be_evaluated(version: int | None) -> None:
    findings = found(BY_ID["single-server"], platform({"schema_version": version}))
    assert [finding.outcome for finding in findings] == [Outcome.UNKNOWN]


def test_the_cost_before_a_change_must_be_given() -> None:
    settings = dataclasses.replace(SETTINGS, usd_per_hour_before=None)
    resource = dataclasses.replace(platform({}), settings=settings)
    (finding,) = found(BY_ID["change-over-budget"], resource)
    assert finding.outcome is Outcome.UNKNOWN


def test_a_rule_that_raises_counts_as_not_evaluated_and_quotes_nothing() -> None:
    def broken(_: Resource) -> Iterator[str]:
        raise ValueError(CANARY)
        yield ""

    rule = dataclasses.replace(BY_ID["single-server"], find=broken)
    (finding,) = found(rule, platform({}))
    assert finding.blocks
    assert finding.message == "the rule failed with ValueError"


def test_a_violation_found_before_an_unknown_counts_too() -> None:
    def both(_: Resource) -> Iterator[str]:
        yield "is wrong"
        raise Unevaluable("and the rest is not known")

    rule = dataclasses.replace(BY_ID["single-server"], find=both)
    assert [finding.outcome for finding in found(rule, platform({}))] == [
        Outcome.VIOLATED,
        Outcome.UNKNOWN,
    ]
