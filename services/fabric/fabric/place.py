"""Where something was measured, and findings about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabric.findings import Finding, Verdict
from fabric.planned import Planned, Thresholds


@dataclass(frozen=True)
class Figure:
    """What was measured or read, as a reason names it."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Place:
    """A host, or two that measured with each other, and what is planned there."""

    host: str
    planned: Planned
    thresholds: Thresholds
    peer: str | None = None

    def passes(self, check: str, reason: str, **figures: Any) -> Finding:
        return Finding(self.host, check, Verdict.PASS, reason, peer=self.peer, **figures)

    def fails(self, check: str, reason: str, fix: str, **figures: Any) -> Finding:
        return Finding(self.host, check, Verdict.FAIL, reason, fix, self.peer, **figures)

    def gap(self, check: str, reason: str, fix: str, **figures: Any) -> Finding:
        return Finding(self.host, check, Verdict.GAP, reason, fix, self.peer, **figures)

    def equal(self, check: str, subject: str, figure: Figure, planned: float, fix: str) -> Finding:
        """A setting that has to be as planned."""
        wanted = f"planned {planned:g}"
        return self._compared(
            check, subject, figure, planned, (figure.value == planned, wanted, fix)
        )

    def at_least(self, check: str, subject: str, figure: Figure, least: float, fix: str) -> Finding:
        wanted = f"at least {round(least, 2):g}"
        return self._compared(check, subject, figure, least, (figure.value >= least, wanted, fix))

    def at_most(self, check: str, subject: str, figure: Figure, most: float, fix: str) -> Finding:
        wanted = f"at most {most:g}"
        return self._compared(check, subject, figure, most, (figure.value <= most, wanted, fix))

    def _compared(
        self,
        check: str,
        subject: str,
        figure: Figure,
        threshold: float,
        outcome: tuple[bool, str, str],
    ) -> Finding:
        holds, wanted, fix = outcome
        value, unit = figure.value, figure.unit
        said = f"{subject}: {figure.name} {round(value, 2):g} {unit}".rstrip() + f", {wanted}"
        figures = {"subject": subject, "figure": value, "threshold": threshold, "unit": unit}
        if holds:
            return self.passes(check, said, **figures)
        return self.fails(check, said, fix, **figures)
