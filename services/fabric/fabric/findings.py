"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """A gap is what could not be checked. Only a pass lets members onto a host."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    GAP = "gap"


@dataclass(frozen=True)
class Finding:
    """`peer` is the other host of a measurement between two. `figure` and `threshold` are in
    `unit`, and None where nothing is measured; `fix` is empty for a pass."""

    host: str
    check: str
    verdict: Verdict
    reason: str
    fix: str = ""
    peer: str | None = None
    subject: str | None = None  # a device or an interface
    figure: float | None = None
    threshold: float | None = None
    unit: str = ""


def worst(findings: Iterable[Finding]) -> Verdict:
    """Of no findings a gap: nothing was checked."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.FAIL, Verdict.GAP, Verdict.PASS):
        if verdict in verdicts:
            return verdict
    return Verdict.GAP
