"""Show what would run where, what it costs and promises, without a cluster."""

# ruff: noqa: PLC0415 - each view loads only what it shows

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cli.environment import find
from cli.errors import WRONG_INPUT, CliError
from cli.options import DEFAULT_STACK, Json, Stack, in_a_folder
from slipway.config.what_if import parse_change
from slipway.inputs import load_inputs

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
    parsed = [parse_change(text) for text in changes]
    inputs = load_inputs(environment.checkout, environment.name, changes=parsed)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    if sweep is not None:
        from cli.planned import sweep as of_sweep

        of_sweep.show(inputs, sweep, png or Path(f"sweep-{sweep}.png"), today, json=json)
    elif compare or calibrate:
        from cli.planned import comparison

        comparison.show(environment, inputs, today, window, json=json, keep=calibrate)
    elif explain is not None:
        from cli.planned import arithmetic

        arithmetic.show(inputs, explain, today, json=json)
    elif changes:
        from cli.planned import change

        files = load_inputs(environment.checkout, environment.name)
        change.show(files, inputs, changes, today, json=json, full=full)
    else:
        from cli.planned import whole

        whole.show(inputs, today, json=json)


def _one_view(asked: Mapping[str, object]) -> None:
    given = [option for option, value in asked.items() if value is not None]
    if len(given) > 1:
        raise CliError(
            f"{' and '.join(given)} cannot be combined",
            fix=f"leave out {' or '.join(given[1:])}",
            exit_code=WRONG_INPUT,
        )
