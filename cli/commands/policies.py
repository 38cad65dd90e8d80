"""Check the environment against policies/, without Pulumi and without a cluster."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import typer

from cli.environment import find
from cli.options import DEFAULT_STACK, Json, Stack
from cli.pulumi.offline import offline_preview
from cli.pulumi.policy_pack import make_policy_environment, usd_per_hour_before
from cli.pulumi.policy_report import run_check
from cli.targets import LOCAL, can_be_built, target_of
from slipway.inputs import load_inputs
from slipway.planner.reports.facts import fleet_facts
from stacks.planning import make_plan

app = typer.Typer(add_completion=False)

# Rules about Pulumi's resources, of which a target without components has none.
RESOURCE_RULES = ("unprotected",)
# Rules about the cost before the change, which is in the state: the user's backend has a fleet's.
STATE_RULES = ("change-over-budget",)


@app.command()
def policies(stack: Stack = DEFAULT_STACK, *, json: Json = False) -> None:
    """Check the environment against policies/, without Pulumi and without a cluster.

    Checks the offline preview or, for an environment that can only be planned, the capacity plan.
    """
    environment = find(stack)
    inputs = load_inputs(environment.checkout, environment.name)
    resources: Sequence[Any]
    skipped: Sequence[str] = ()
    if not can_be_built(environment):
        today = datetime.datetime.now(tz=datetime.UTC).date()
        resources = fleet_facts(make_plan(inputs, today=today))
        skipped = RESOURCE_RULES
    else:
        resources = offline_preview(environment)["resources"]
        skipped = () if target_of(environment) in LOCAL else STATE_RULES
    options = [f"--skip={rule}" for rule in skipped] + (["--json"] if json else [])
    done = run_check(
        {"resources": list(resources)},
        environment.name,
        usd_per_hour_before(environment),
        python=make_policy_environment(environment) / "bin" / "python",
        options=options,
    )
    if done.returncode:
        raise typer.Exit(done.returncode)
