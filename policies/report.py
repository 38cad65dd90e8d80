"""What the policies found, as a JSON document (schemas/policy-report.schema.json) and as text."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judgement import Finding, Outcome
from rules import GROUPS, RULES
from rules.rule import Level, Rule, Stage
from waivers import Waiver

SCHEMA_VERSION = 1
_GROUP_OF = {rule.id: group for group, rules in GROUPS.items() for rule in rules}


def report_document(
    findings: Sequence[Finding],
    waivers: Iterable[Waiver],
    *,
    environment: str,
    stage: Stage,
    rules: Sequence[Rule],
    today: datetime.date,
) -> dict[str, Any]:
    """`blocked` is true when a mandatory rule is violated, a rule could not be evaluated, or a
    waiver has expired."""
    expired = [waiver for waiver in waivers if waiver.has_expired(today)]
    used = {finding.waiver for finding in findings}
    outcomes = Counter(finding.outcome for finding in findings)
    levels = Counter(finding.level for finding in findings if finding.outcome is Outcome.VIOLATED)
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": environment,
        "stage": stage.value,
        "blocked": bool(expired) or any(finding.blocks for finding in findings),
        "rules": sum(rule.severity.at(stage) is not Level.OFF for rule in rules),
        "skipped_rules": sorted({rule.id for rule in RULES} - {rule.id for rule in rules}),
        "counts": {
            "mandatory": levels[Level.MANDATORY],
            "advisory": levels[Level.ADVISORY],
            "could_not_be_evaluated": outcomes[Outcome.UNKNOWN],
            "waived": outcomes[Outcome.WAIVED],
            "expired_waivers": len(expired),
        },
        "findings": [_finding(finding) for finding in findings],
        "expired_waivers": [_waiver(waiver) for waiver in expired],
        "unused_waivers": [
            _waiver(waiver) for waiver in waivers if waiver not in used and waiver not in expired
        ],
    }


def report_text(report: Mapping[str, Any]) -> str:
    """The report for a terminal: what blocks comes first."""
    order = {"could not be evaluated": 0, "violated": 1, "waived": 2}
    findings = sorted(
        report["findings"],
        key=lambda found: (found["level"] != "mandatory", order[found["outcome"]], found["rule"]),
    )
    lines = [line for found in findings for line in _lines(found)]
    lines += [_waiver_line("expired waiver", waiver) for waiver in report["expired_waivers"]]
    lines += [_waiver_line("unused waiver", waiver) for waiver in report["unused_waivers"]]
    counts = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in report["counts"].items() if count
    )
    lines += [f"not judged  {rule}" for rule in report["skipped_rules"]]
    verdict = "blocked" if report["blocked"] else "passed"
    lines.append(
        f"{verdict}: {report['rules']} rules for {report['stage']}; {counts or 'no findings'}"
    )
    return "\n".join(lines)


def _lines(found: Mapping[str, Any]) -> list[str]:
    label = found["level"] if found["outcome"] == "violated" else found["outcome"]
    lines = [f"{label}  {found['rule']}: {found['resource']} {found['message']}"]
    if waiver := found.get("waiver"):
        return [*lines, f"    {waiver['owner']}, until {waiver['expires']}: {waiver['reason']}"]
    return [*lines, f"    fix: {found['fix']}  ({found['link']})"]


def _waiver_line(label: str, waiver: Mapping[str, str]) -> str:
    return (
        f"{label}  {waiver['rule']} of {waiver['resource']}: {waiver['owner']},"
        f" until {waiver['expires']}: {waiver['reason']}"
    )


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.id,
        "group": _GROUP_OF[finding.rule.id],
        "level": finding.level.value,
        "outcome": finding.outcome.value,
        "resource": finding.resource.name,
        "type": finding.resource.type,
        "message": finding.message,
        "why": finding.rule.why,
        "fix": finding.rule.fix,
        "link": finding.rule.link,
        **({"waiver": _waiver(finding.waiver)} if finding.waiver else {}),
    }


def _waiver(waiver: Waiver) -> dict[str, str]:
    return {
        "rule": waiver.rule,
        "resource": waiver.resource,
        "owner": waiver.owner,
        "reason": waiver.reason,
        "expires": waiver.expires.isoformat(),
    }
