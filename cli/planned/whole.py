"""The whole plan, as tables or as the document that its readers get."""

from __future__ import annotations

import sys
from datetime import date

from cli.console import print_tables
from cli.views.capacity_table import capacity_table
from cli.views.plan_table import plan_table
from slipway.inputs import PlanInputs
from slipway.plan.platform import PlatformPlan
from slipway.planner.platform import make_plan


def show(inputs: PlanInputs, today: date, *, json: bool) -> None:
    """The tables name no job, so only the document needs the rendered jobs' IDs. ConfigError."""
    if not json:
        show_tables(make_plan(inputs, today=today))
        return
    from cli.planning import plan_environment  # noqa: PLC0415 - a tenth of the tables' time
    from slipway.plan.document import plan_to_json  # noqa: PLC0415

    sys.stdout.write(plan_to_json(plan_environment(inputs, today=today)))


def show_tables(planned: PlatformPlan) -> None:
    if all(pool.hosts for pool in planned.pools):  # names and addresses are known
        print_tables(plan_table(planned))
    print_tables(capacity_table(planned))
