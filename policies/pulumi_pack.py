"""The rules as a Pulumi policy pack.

Pulumi fixes a policy's enforcement level before it names the stack, but a rule's level depends on
the stack's stage. So each rule has a mandatory policy, which reports only at stages where the rule
is mandatory. Four more policies report the rest: advice, what could not be evaluated (blocks at
every level), what is waived (never blocks), and expired waivers.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judgement import Finding, Outcome, judge
from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError
from rules import RULES
from rules.facts import UNKNOWN, of_resource
from rules.rule import PLATFORM, Level, Resource, Rule, Stage
from settings import read_settings, rule_settings, stage_of
from waivers import Waiver, read_waivers

FOLDER = Path(__file__).parent
# Set by `slipway preview` through `--policy-pack-config`, for every policy that reads it.
COST_BEFORE = "usd_per_hour_before"

Validate = Callable[[ResourceValidationArgs, ReportViolation], None]
Wanted = Callable[[Finding], bool]


def pack_policies(
    *, folder: Path = FOLDER, today: datetime.date | None = None
) -> list[ResourceValidationPolicy]:
    """All policies of the pack. Raises InputError on a mistake in settings or waivers."""
    judging = _Judging(
        settings=read_settings(folder / "settings.yaml"),
        waivers=read_waivers(folder / "waivers.yaml", {rule.id for rule in RULES}),
        today=today or datetime.datetime.now(tz=datetime.UTC).date(),
    )
    mandatory = [
        _policy(
            rule.id,
            rule.title,
            EnforcementLevel.MANDATORY,
            judging.reports([rule], _is_mandatory),
            link=rule.link,
        )
        for rule in RULES
        if any(rule.severity.at(stage) is Level.MANDATORY for stage in Stage)
    ]
    return [
        *mandatory,
        _policy(
            "could-not-be-evaluated",
            "Every value that a rule needs is known at preview",
            EnforcementLevel.MANDATORY,
            judging.reports(RULES, lambda finding: finding.outcome is Outcome.UNKNOWN),
        ),
        _policy(
            "expired-waiver",
            "No waiver has expired",
            EnforcementLevel.MANDATORY,
            judging.report_expired_waivers,
        ),
        _policy(
            "advice",
            "Worth a look before merging",
            EnforcementLevel.ADVISORY,
            judging.reports(RULES, _is_advice),
        ),
        _policy(
            "waived",
            "Accepted findings (policies/waivers.yaml)",
            EnforcementLevel.ADVISORY,
            judging.reports(RULES, lambda finding: finding.outcome is Outcome.WAIVED),
        ),
    ]


def _policy(
    name: str,
    title: str,
    level: EnforcementLevel,
    validate: Validate,
    *,
    link: str = "docs/policies.md",
) -> ResourceValidationPolicy:
    return ResourceValidationPolicy(
        name=name,
        description=title,
        enforcement_level=level,
        validate=validate,
        config_schema=PolicyConfigSchema(properties={COST_BEFORE: {"type": "number"}}),
        url=link,
    )


def _is_mandatory(finding: Finding) -> bool:
    return finding.outcome is Outcome.VIOLATED and finding.level is Level.MANDATORY


def _is_advice(finding: Finding) -> bool:
    return finding.outcome is Outcome.VIOLATED and finding.level is Level.ADVISORY


class _Judging:
    """What all policies of one run share."""

    def __init__(
        self, *, settings: Mapping[str, Any], waivers: Sequence[Waiver], today: datetime.date
    ) -> None:
        self._settings = settings
        self._waivers = waivers
        self._today = today
        self._target = ""  # from the platform component, which registers before its children

    def reports(self, rules: Iterable[Rule], wanted: Wanted) -> Validate:
        """A policy's function, which reports the wanted findings."""
        rules = tuple(rules)
        types = frozenset(type_ for rule in rules for type_ in rule.types)

        def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
            if args.resource_type not in types:
                return
            resource = self._resource(args)
            if args.resource_type == PLATFORM:
                self._target = str(resource.props.get("target", ""))
            stage = stage_of(_stack(args.urn), self._settings, target=self._target)
            for finding in judge(rules, resource, stage, self._waivers):
                if wanted(finding):
                    report(_text(finding), None)

        return validate

    def report_expired_waivers(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type != PLATFORM:
            return
        for waiver in self._waivers:
            if waiver.has_expired(self._today):
                report(f"{waiver.rule} of {waiver.resource}: {waiver}", None)

    def _resource(self, args: ResourceValidationArgs) -> Resource:
        return Resource(
            type=args.resource_type,
            name=args.name,
            props=of_resource(args.resource_type, plain(args.props)),
            protect=args.opts.protect,
            settings=rule_settings(
                self._settings,
                today=self._today,
                usd_per_hour_before=args.get_config().get(COST_BEFORE),
            ),
        )


def _stack(urn: str) -> str:
    """urn:pulumi:STACK::project::types::name"""
    return urn.split("::", maxsplit=1)[0].rpartition(":")[2]


def plain(proxy: Any) -> Any:
    """The SDK's properties as plain values, with UNKNOWN where reading one raises."""
    if isinstance(proxy, Mapping):
        return {key: _element(proxy, key) for key in proxy}
    if isinstance(proxy, Sequence) and not isinstance(proxy, str):
        return [_element(proxy, index) for index in range(len(proxy))]
    return proxy


def _element(proxy: Any, key: Any) -> Any:
    try:
        value = proxy[key]
    except UnknownValueError:
        return UNKNOWN
    return plain(value)


def _text(finding: Finding) -> str:
    own_policy = _is_mandatory(finding)  # whose name is the rule's
    name = "" if own_policy else f"{finding.rule.id}: "
    waiver = (
        f" ({finding.waiver})"
        if finding.waiver
        else f"\nfix: {finding.rule.fix} ({finding.rule.link})"
    )
    return f"{name}{finding.resource.name} {finding.message}{waiver}"
