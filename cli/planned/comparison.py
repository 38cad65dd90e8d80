"""Promised figures beside those of the running environment."""

from __future__ import annotations

from datetime import date

from cli.calibration import calibrate
from cli.clusters.measured import ask
from cli.console import print_tables, say, write_json
from cli.environment import Environment
from cli.lifecycle.registry import lifecycle_of
from cli.views.comparison_table import comparison_document, comparison_table
from slipway.inputs import PlanInputs
from slipway.planner.reports.comparison import compare
from stacks.planning import make_plan


def show(
    environment: Environment,
    inputs: PlanInputs,
    today: date,
    window_s: int,
    *,
    json: bool,
    keep: bool,
) -> None:
    """With `keep`, the measured figures are kept for later plans. ConfigError, and CliError if the
    environment does not answer."""
    promised = make_plan(inputs, today=today)
    with lifecycle_of(environment).asked() as applied:
        measured = ask(applied, inputs, window_s=window_s)
    rows = compare(promised, measured)
    if json:
        write_json(comparison_document(rows, measured))
    else:
        print_tables(comparison_table(rows, window_s=window_s))
    if keep:
        path, kept = calibrate(inputs, promised, measured, environment.checkout)
        say(f"{len(kept)} measured rows kept in {path.relative_to(environment.checkout)}")
