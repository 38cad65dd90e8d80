"""Show what would run where, what it costs and promises, without a cluster."""

from __future__ import annotations

import dataclasses
import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.calibration import calibrate as keep_as_calibration
from cli.clusters.measured import ask
from cli.console import print_tables, say, write_json
from cli.environment import Environment, find
from cli.errors import WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack, in_a_folder
from cli.planning import plan_environment
from cli.views.capacity_table import capacity_table
from cli.views.comparison_table import comparison_document, comparison_table
from cli.views.differences_table import differences_table
from cli.views.explain_table import explain_table
from cli.views.plan_table import plan_table
from cli.views.sweep_table import sweep_table
from slipway.config.errors import ConfigError, suggestion
from slipway.config.fleet import FleetSettings
from slipway.config.what_if import parse_change
from slipway.inputs import PlanInputs, load_inputs
from slipway.plan.document import plan_to_json
from slipway.plan.platform import PlatformPlan
from slipway.planner.calibration import calibration_of
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.sweep import sweep
from slipway.planner.reports.comparison import compare as comparison
from slipway.planner.reports.differences import differences, new_warnings
from slipway.planner.reports.explain import explain

app = typer.Typer(add_completion=False)

WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="KEY=VALUE",
        help="Show what a change does to the plan, e.g. models.NAME.replicas.max=4. May be"
        " repeated; KEY= removes the key.",
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="With --what-if: show the whole changed plan as well.")
]
Explained = Annotated[
    str | None, typer.Option("--explain", metavar="MODEL", help="Show the arithmetic line by line.")
]
Swept = Annotated[
    str | None,
    typer.Option(
        "--sweep",
        metavar="MODEL",
        help="Try every priced instance, layout and precision; draws cost against latency.",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--png",
        callback=in_a_folder,
        help="Where --sweep writes the picture; default: sweep-MODEL.png.",
    ),
]
Compared = Annotated[
    bool,
    typer.Option("--compare", help="Show promised figures beside those of a running environment."),
]
Calibrated = Annotated[
    bool,
    typer.Option("--calibrate", help="With --compare: keep the measured figures for later plans."),
]
Window = Annotated[
    int, typer.Option("--window", min=15, metavar="SECONDS", help="How far back --compare looks.")
]


@app.command()
def plan(
    stack: Stack = DEFAULT_STACK,
    *,
    json: Json = False,
    what_if: WhatIf = None,
    full: Full = False,
    explain: Explained = None,
    sweep: Swept = None,
    png: Picture = None,
    compare: Compared = False,
    calibrate: Calibrated = False,
    window: Window = 600,
) -> None:
    """Show what would run where, what it costs and promises, without a cluster."""
    environment = find(stack)
    _one_view({"--sweep": sweep, "--explain": explain, "--compare": compare or calibrate or None})
    changes = what_if or []
    inputs = _inputs(environment, changes)
    if sweep is not None:
        _show_sweep(inputs, sweep, png or Path(f"sweep-{sweep}.png"), json=json)
    elif compare or calibrate:
        _show_comparison(environment, inputs, window, json=json, keep=calibrate)
    elif explain is not None:
        _show_arithmetic(inputs, explain, json=json)
    elif changes:
        before = _planned(_inputs(environment, []))
        _show_change(before, _planned(inputs), changes, json=json, full=full)
    else:
        _show_plan(_planned(inputs), json=json)


def _one_view(asked: Mapping[str, object]) -> None:
    given = [option for option, value in asked.items() if value is not None]
    if len(given) > 1:
        raise CliError(
            f"{' and '.join(given)} cannot be combined",
            fix=f"leave out {' or '.join(given[1:])}",
            exit_code=WRONG_INPUT,
        )


def _inputs(environment: Environment, changes: Iterable[str]) -> PlanInputs:
    parsed = [parse_change(text) for text in changes]
    return load_inputs(environment.checkout, environment.name, changes=parsed)


def _planned(inputs: PlanInputs) -> PlatformPlan:
    return plan_environment(inputs, today=_today())


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()


def _show_plan(planned: PlatformPlan, *, json: bool) -> None:
    if json:
        sys.stdout.write(plan_to_json(planned))
        return
    if all(pool.hosts for pool in planned.pools):  # names and addresses are known
        print_tables(plan_table(planned))
    print_tables(capacity_table(planned))


def _show_change(
    before: PlatformPlan, after: PlatformPlan, changes: Sequence[str], *, json: bool, full: bool
) -> None:
    if json:
        sys.stdout.write(plan_to_json(after, before=before))
        return
    found, warnings = differences(before, after), new_warnings(before, after)
    print_tables(differences_table(changes, found, warnings, cost=after.cost))
    if full:
        _show_plan(after, json=False)
    else:
        say("--full shows the whole plan after the change")


def _show_arithmetic(inputs: PlanInputs, name: str, *, json: bool) -> None:
    models = {model.name: model for model in _planned(inputs).models}
    if name not in models:
        raise _no_such_model(name, models, inputs)
    model, catalog = models[name], inputs.catalog
    lines = explain(
        model,
        catalog.models[model.architecture],
        catalog.accelerators.get(model.accelerator),
    )
    if json:
        write_json({"model": name, "lines": [dataclasses.asdict(line) for line in lines]})
    else:
        print_tables(explain_table(name, lines))


def _show_comparison(
    environment: Environment, inputs: PlanInputs, window_s: int, *, json: bool, keep: bool
) -> None:
    promised = _planned(inputs)
    with lifecycle_of(environment).asked() as applied:
        measured = ask(applied, inputs, window_s=window_s)
    rows = comparison(promised, measured)
    if json:
        write_json(comparison_document(rows, measured))
    else:
        print_tables(comparison_table(rows, window_s=window_s))
    if keep:
        path, kept = keep_as_calibration(inputs, promised, measured, environment.checkout)
        say(f"{len(kept)} measured rows kept in {path.relative_to(environment.checkout)}")


def _show_sweep(inputs: PlanInputs, name: str, png: Path, *, json: bool) -> None:
    found = sweep(
        _demand(inputs, name),
        inputs.catalog,
        calibration=calibration_of(inputs),
        today=_today(),
    )
    if found.points:
        from cli.views.sweep_picture import picture  # noqa: PLC0415 - slow, and only sweeps draw

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
        raise _no_such_model(name, inputs.models, inputs)
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


def _no_such_model(name: str, known: Iterable[str], inputs: PlanInputs) -> CliError:
    return CliError(
        f'{inputs.environment.name} deploys no model "{name}"',
        fix=suggestion(name, known),
        exit_code=WRONG_INPUT,
    )
