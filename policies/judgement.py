"""Checks resources against rules: what is violated, unevaluable or waived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from rules.facts import Unevaluable, number
from rules.rule import MODEL_SERVICE, NODE_POOL, PLATFORM, Level, Resource, Rule, Stage
from waivers import Waiver

# Components whose properties are facts of the plan (schemas/facts.schema.json), and the versions of
# those facts that the rules understand.
FACTS = frozenset({PLATFORM, NODE_POOL, MODEL_SERVICE})
FACTS_VERSIONS = frozenset({1})


class Outcome(Enum):
    VIOLATED = "violated"
    UNKNOWN = "could not be evaluated"
    WAIVED = "waived"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`waiver` covers the finding; an expired waiver covers nothing."""

    rule: Rule
    level: Level
    resource: Resource
    outcome: Outcome
    message: str
    waiver: Waiver | None = None

    @property
    def blocks(self) -> bool:
        """A rule that could not be evaluated blocks, whatever its level."""
        if self.outcome is Outcome.VIOLATED:
            return self.level is Level.MANDATORY
        return self.outcome is Outcome.UNKNOWN


def judge(
    rules: Iterable[Rule], resource: Resource, stage: Stage, waivers: Sequence[Waiver]
) -> Iterator[Finding]:
    """The findings of one resource; none if it follows every rule."""
    for rule in rules:
        level = rule.severity.at(stage)
        if level is Level.OFF or resource.type not in rule.types:
            continue
        waiver = _waiver(rule, resource, waivers)
        for outcome, message in _outcomes(rule, resource):
            yield Finding(
                rule=rule,
                level=level,
                resource=resource,
                outcome=Outcome.WAIVED if waiver else outcome,
                message=message,
                waiver=waiver,
            )


def _outcomes(rule: Rule, resource: Resource) -> Iterator[tuple[Outcome, str]]:
    try:
        _check_version(resource)
        for message in rule.find(resource):
            yield Outcome.VIOLATED, message
    except Unevaluable as reason:
        yield Outcome.UNKNOWN, str(reason)
    except Exception as error:
        # Without the error's own text, which may quote a secret.
        yield Outcome.UNKNOWN, f"the rule failed with {type(error).__name__}"


def _check_version(resource: Resource) -> None:
    if resource.type not in FACTS:
        return
    version = number(resource.props, "schema_version")
    if version not in FACTS_VERSIONS:
        raise Unevaluable(f"its facts have the schema_version {version:g}; these rules know 1")


def _waiver(rule: Rule, resource: Resource, waivers: Sequence[Waiver]) -> Waiver | None:
    today = resource.settings.today
    for waiver in waivers:
        if waiver.covers(rule.id, resource.name) and not waiver.has_expired(today):
            return waiver
    return None
