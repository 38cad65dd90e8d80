"""What a change of the files does to the plan."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date

from cli.console import print_tables, say
from cli.planned.whole import show_tables
from cli.views.differences_table import differences_table
from slipway.inputs import PlanInputs
from slipway.plan.document import plan_to_json
from slipway.planner.reports.differences import differences, new_warnings
from stacks.planning import make_plan


def show(
    files: PlanInputs,
    changed: PlanInputs,
    changes: Sequence[str],
    today: date,
    *,
    json: bool,
    full: bool,
) -> None:
    """Prints how the plans of `files` and `changed` differ. ConfigError for mistakes in either."""
    before, after = (make_plan(inputs, today=today) for inputs in (files, changed))
    if json:
        sys.stdout.write(plan_to_json(after, before=before))
        return
    found, warnings = differences(before, after), new_warnings(before, after)
    print_tables(differences_table(changes, found, warnings, cost=after.cost))
    if full:
        show_tables(after)
    else:
        say("--full shows the whole plan after the change")
