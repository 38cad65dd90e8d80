"""Judge the environment by policies/, without Pulumi and without a cluster."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import typer

from slipway.cli.environment import find
from slipway.cli.options import DEFAULT_STACK, Json, Stack
from slipway.cli.pulumi.offline import offline_preview
from slipway.cli.pulumi.policy_pack import make_policy_environment, usd_per_hour_before
from slipway.cli.pulumi.policy_report import run_check
from slipway.cli.targets import has_components
from slipway.config.inputs import load_inputs
from slipway.planner.platform import make_plan
from slipway.planner.reports.facts import fleet_facts

app = typer.Typer(add_completion=False)

# Rules about resources: a target without components has none.
NOT_OF_A_PLAN = ("unprotected",)


@app.command()
def policies(stack: Stack = DEFAULT_STACK, *, json: Json = False) -> None:
    """Judge the environment by policies/, without Pulumi and without a cluster.

    Judges the offline preview, or, for a target without components, the capacity plan.
    """
    environment = find(stack)
    inputs = load_inputs(environment.checkout, environment.name)
    resources: Sequence[Any]
    skipped: Sequence[str] = ()
    if not has_components(environment):
        today = datetime.datetime.now(tz=datetime.UTC).date()
        resources = fleet_facts(make_plan(inputs, today=today))
        skipped = NOT_OF_A_PLAN
    else:
        resources = offline_preview(environment)["resources"]
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
