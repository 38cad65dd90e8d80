"""Judge the resources of a preview without Pulumi, and print the findings.

    slipway preview -s dev --offline --json | python policies/check.py [--json]

Reads `{"resources": [{"type", "name", "inputs", "protect"?}]}` from standard input. Exit codes:
0 nothing blocks, 1 something does, 2 the input or one of the policies' own files has a mistake.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judgement import judge
from report import report_document, report_text
from resources import platform_fact, read_resources
from rules import RULES
from settings import read_settings, rule_settings, stage_of
from waivers import InputError, read_waivers

FOLDER = Path(__file__).parent
BLOCKED, WRONG_INPUT = 1, 2


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    try:
        document = _document(sys.stdin.read())
        report = _report(document, options)
    except InputError as mistake:
        print(f"policies: {mistake}", file=sys.stderr)  # noqa: T201
        return WRONG_INPUT
    shown = json.dumps(report, indent=2, sort_keys=True) if options.json else report_text(report)
    print(shown)  # noqa: T201
    return BLOCKED if report["blocked"] else 0


def _report(document: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    settings = read_settings(FOLDER / "settings.yaml")
    waivers = read_waivers(options.waivers, {rule.id for rule in RULES})
    environment = options.environment or platform_fact(document, "environment")
    stage = stage_of(environment, settings, target=platform_fact(document, "target"))
    today = datetime.datetime.now(tz=datetime.UTC).date()
    resources = read_resources(
        document,
        rule_settings(settings, today=today, usd_per_hour_before=options.usd_per_hour_before),
    )
    rules = [rule for rule in RULES if rule.id not in options.skip]
    findings = [
        finding for resource in resources for finding in judge(rules, resource, stage, waivers)
    ]
    return report_document(
        findings, waivers, environment=environment, stage=stage, rules=rules, today=today
    )


def _document(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"standard input is not JSON: {error}") from None
    if not isinstance(document, Mapping):
        raise InputError("standard input is not a JSON object")
    return document


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judge the resources of a preview.")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--environment", help="its name; else the platform's own")
    parser.add_argument("--waivers", type=Path, default=FOLDER / "waivers.yaml")
    parser.add_argument("--usd-per-hour-before", type=float, help="the cost before the change")
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=sorted(rule.id for rule in RULES),
        metavar="RULE",
        help="leave out this rule; the report names it",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
