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
from slipway.planner.reports.comparison import compare, compare_names
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
        measured = ask(environment, applied, inputs, window_s=window_s)
    rows, names = compare(promised, measured), compare_names(promised, measured)
    if json:
        write_json(comparison_document(rows, names, measured))
    else:
        print_tables(comparison_table(rows, names, window_s=window_s))
    if keep:
        path, kept = calibrate(inputs, promised, measured, environment.checkout)
        say(f"{len(kept)} measured rows kept in {path.relative_to(environment.checkout)}")
        for row in kept:
            if row.serving is None:
                say(f"{row.model}: only its KV cache; a steady load would give its times, too")
