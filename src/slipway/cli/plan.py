"""Show what would run where, and whether it fits, without a cluster."""

from __future__ import annotations

import sys

import typer

from slipway.cli.console import print_tables
from slipway.cli.environment import find
from slipway.cli.options import DEFAULT_STACK, Json, Stack
from slipway.cli.plan_table import plan_table
from slipway.config.inputs import load_inputs
from slipway.plan.document import plan_to_json
from slipway.planner.platform import make_plan

app = typer.Typer(add_completion=False)


@app.command()
def plan(stack: Stack = DEFAULT_STACK, json: Json = False) -> None:
    """Show what would run where, and whether it fits, without a cluster."""
    environment = find(stack)
    made = make_plan(load_inputs(environment.checkout, environment.name))
    if json:
        sys.stdout.write(plan_to_json(made))
    else:
        print_tables(plan_table(made))
