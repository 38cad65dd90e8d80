"""The policies' findings (schemas/policy-report.schema.json, printed by policies/check.py --json).

A missing report does not count as a pass: the comment then says that policies were not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.diff.change import PreviewFormatError

ACCEPTED_VERSIONS = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`outcome`: "violated" | "could not be evaluated" | "waived" | "expired waiver"."""

    rule: str
    level: str  # "mandatory" | "advisory"
    outcome: str
    resource: str
    message: str
    fix: str = ""
    link: str = ""
    answered_by: str = ""  # "ada@example.com until 2027-01-31: the reason"

    @property
    def blocks(self) -> bool:
        if self.outcome == "violated":
            return self.level == "mandatory"
        return self.outcome != "waived"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    rules: int
    findings: tuple[Finding, ...]

    @property
    def blocked(self) -> bool:
        return any(finding.blocks for finding in self.findings)

    def count(self, outcome: str, level: str | None = None) -> int:
        return sum(
            each.outcome == outcome and level in (None, each.level) for each in self.findings
        )


def read_policy_report(document: Mapping[str, Any]) -> PolicyReport:
    """Raises PreviewFormatError if it is not a report of a known version. One that is blocked
    for a reason that this reader does not know is refused, too, so that it does not pass."""
    if document.get("schema_version") not in ACCEPTED_VERSIONS or not isinstance(
        document.get("findings"), list
    ):
        raise PreviewFormatError(
            "this is not a policy report of a version that slipway diff reads",
            fix="slipway preview --offline --json | python policies/check.py --json > report.json",
        )
    findings = tuple(sorted(_findings(document), key=lambda each: (not each.blocks, each.rule)))
    report = PolicyReport(rules=int(document.get("rules") or 0), findings=findings)
    if document.get("blocked") and not report.blocked:
        raise PreviewFormatError(
            "the policy report is blocked for a reason that is not among its findings",
            fix="use policies/ and slipway from the same commit",
        )
    return report


def _findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    for found in document["findings"]:
        yield Finding(
            rule=str(found["rule"]),
            level=str(found["level"]),
            outcome=str(found["outcome"]),
            resource=str(found["resource"]),
            message=str(found["message"]),
            fix=str(found.get("fix") or ""),
            link=str(found.get("link") or ""),
            answered_by=_answer(found.get("waiver")),
        )
    for waiver in document.get("expired_waivers") or []:
        yield Finding(
            rule=str(waiver["rule"]),
            level="mandatory",
            outcome="expired waiver",
            resource=str(waiver["resource"]),
            message="its waiver has expired",
            fix="fix the finding, or have its owner renew the waiver",
            answered_by=_answer(waiver),
        )


def _answer(waiver: Mapping[str, Any] | None) -> str:
    if not waiver:
        return ""
    return f"{waiver['owner']} until {waiver['expires']}: {waiver['reason']}"
