"""How a model's figures come about, line by line."""

from __future__ import annotations

import dataclasses
from datetime import date

from cli.console import print_tables, write_json
from cli.planned.names import no_such_model
from cli.views.explain_table import explain_table
from slipway.inputs import PlanInputs
from slipway.planner.platform import draft_plan
from slipway.planner.reports.explain import explain


def show(inputs: PlanInputs, name: str, today: date, *, json: bool) -> None:
    """CliError for a model that is not deployed; ConfigError."""
    plan = draft_plan(inputs, today=today)
    models = {model.name: model for model in plan.models}
    if name not in models:
        raise no_such_model(name, models, inputs)
    model, catalog = models[name], inputs.catalog
    lines = explain(
        model,
        catalog.models[model.architecture],
        catalog.accelerators.get(model.accelerator),
        plan.pool(model.pool).fabric,
    )
    if json:
        write_json({"model": name, "lines": [dataclasses.asdict(line) for line in lines]})
    else:
        print_tables(explain_table(name, lines))
