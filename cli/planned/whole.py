"""The whole plan, as tables or as the document that its readers get."""

from __future__ import annotations

import sys
from datetime import date

from cli.console import print_tables
from cli.views.capacity_table import capacity_table
from cli.views.plan_table import plan_table
from slipway.inputs import PlanInputs
from slipway.plan.draft import AnyPlan
from slipway.planner.platform import draft_plan


def show(inputs: PlanInputs, today: date, *, json: bool) -> None:
    """The tables name no job, so they show the draft. ConfigError."""
    if not json:
        show_tables(draft_plan(inputs, today=today))
        return
    from slipway.plan.document import plan_to_json  # noqa: PLC0415
    from stacks.planning import make_plan  # noqa: PLC0415 - a tenth of the tables' time

    sys.stdout.write(plan_to_json(make_plan(inputs, today=today)))


def show_tables(planned: AnyPlan) -> None:
    if all(pool.hosts for pool in planned.pools):  # names and addresses are known
        print_tables(plan_table(planned))
    print_tables(capacity_table(planned))
