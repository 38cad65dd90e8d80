"""What the policies say of an environment before its files are written."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.errors import FAILED, CliError
from cli.pulumi.policy_report import BLOCKED, run_check
from slipway.config.errors import ConfigError
from slipway.diff.policies import Finding, PolicyReport, read_policy_report
from slipway.inputs import PlanInputs
from slipway.planner.reports.facts import fleet_facts
from stacks.planning import make_plan

# Rules about resources, which a plan does not have, and about the change, which is judged before.
_OF_RESOURCES = ("unprotected", "change-over-budget")


def judge(inputs: PlanInputs, before: PlanInputs | None = None) -> Sequence[Finding]:
    """The advice of the policies. CliError if a rule that `before` keeps would be broken."""
    report = _report(inputs)
    known = _keys(before) if before and report.blocked else set()
    broken = [each for each in report.findings if each.blocks and _key(each) not in known]
    if broken:
        first = broken[0]
        raise CliError(
            f"nothing was written: the policies refuse it: {first.resource} {first.message}"
            f" ({first.rule})",
            fix=first.fix,
            exit_code=FAILED,
        )
    return [each for each in report.findings if not each.blocks]


def _keys(inputs: PlanInputs) -> set[tuple[str, str]]:
    try:
        return {_key(each) for each in _report(inputs).findings}
    except ConfigError:
        return set()


def _key(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.resource


def _report(inputs: PlanInputs) -> PolicyReport:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    facts = fleet_facts(make_plan(inputs, today=today))
    done = run_check(
        {"resources": facts},
        inputs.environment.name,
        0.0,
        python=Path(sys.executable),
        options=["--json", *(f"--skip={rule}" for rule in _OF_RESOURCES)],
        capture_output=True,
    )
    if done.returncode not in (0, BLOCKED) or not done.stdout.strip():
        raise CliError(
            f"the policies could not be run:\n{done.stderr.strip()}", fix="correct what it reports"
        )
    return read_policy_report(json.loads(done.stdout))
