"""Every priced instance, layout and precision for one model."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path

from cli.console import print_tables, say, write_json
from cli.errors import WRONG_INPUT, CliError
from cli.planned.names import no_such_model
from cli.views.sweep_table import sweep_table
from slipway.config.errors import ConfigError
from slipway.config.fleet import FleetSettings
from slipway.inputs import PlanInputs
from slipway.planner.calibration import calibration_of
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.sweep import sweep


def show(inputs: PlanInputs, name: str, png: Path, today: date, *, json: bool) -> None:
    """Draws cost against latency into `png`. CliError, ConfigError."""
    found = sweep(
        _demand(inputs, name),
        inputs.catalog,
        calibration=calibration_of(inputs),
        today=today,
    )
    if found.points:
        from cli.views.sweep_picture import picture  # noqa: PLC0415 - slow, not always drawn

        picture(found).savefig(png)
        say(f"picture: {png}")
    if json:
        write_json(dataclasses.asdict(found))
    else:
        print_tables(sweep_table(found))


def _demand(inputs: PlanInputs, name: str) -> Demand:
    """The model's demand on accelerators; a sweep needs a load to compare for."""
    settings = inputs.environment.settings
    if name not in inputs.models:
        raise no_such_model(name, inputs.models, inputs)
    if not isinstance(settings, FleetSettings):
        raise CliError(
            f"{settings.target} has no accelerators to sweep over",
            fix="choose an environment whose machines have accelerators, e.g. -s aws",
            exit_code=WRONG_INPUT,
        )
    model = inputs.models[name]
    made = plan_demand(model, settings.models[name], inputs.catalog.models, inputs.traces)
    if not isinstance(made, Demand):
        raise ConfigError(made)
    if made.load is None:
        problem = model.origin.problem(
            ("load",), "is needed for a sweep", fix="declare the load to compare for"
        )
        raise ConfigError([problem])
    return made
