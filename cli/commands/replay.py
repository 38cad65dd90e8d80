"""Serve a recorded load with simulated replicas, before and after a change."""

from __future__ import annotations

import datetime
import json as jsonlib
import math
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import print_tables, say, write_json
from cli.environment import Environment, find
from cli.errors import FAILED, WRONG_INPUT, CliError
from cli.options import DEFAULT_STACK, Json, Stack, in_a_folder
from cli.views.replay_table import draw, replay_table
from slipway.config.artifacts import SIMULATOR_PROFILES
from slipway.config.errors import suggestion
from slipway.config.what_if import parse_change
from slipway.inputs import PlanInputs, load_inputs
from slipway.plan.platform import JsonObject
from slipway.planner.reports.replay import replay_fleet
from stacks.planning import make_plan

app = typer.Typer(add_completion=False)

PROGRAM = Path("services") / "fleet_replay" / "replay.py"
WRONG_DOCUMENT = 2  # the program's exit code

TRACE_FIX = "repair the trace (format: docs/replay.md); --skip-broken leaves out broken lines"
DOCUMENT_FIX = "change the environment's or the model's file, or the option it came from"


class Unit(StrEnum):
    MS = "ms"
    S = "s"


class Routing(StrEnum):
    LEAST_REQUEST = "least_request"
    ROUND_ROBIN = "round_robin"
    PREFIX_HASH = "prefix_hash"


def _file(trace: Path) -> Path:
    if not trace.is_file():
        raise CliError(
            f"{trace} does not exist",
            fix="pass a trace file: docs/replay.md has the format",
            exit_code=WRONG_INPUT,
        )
    return trace


def _above_zero(speed: float) -> float:
    if speed > 0 and math.isfinite(speed):
        return speed
    raise CliError(
        f"--speed: must be a number above 0 (found {speed:g})",
        fix="2 makes the requests arrive in half the time, 0.5 in twice the time",
        exit_code=WRONG_INPUT,
    )


@app.command()
def replay(
    trace: Annotated[
        Path, typer.Argument(callback=_file, help="JSON lines, one request each: docs/replay.md.")
    ],
    stack: Stack = DEFAULT_STACK,
    *,
    model: Annotated[
        str | None,
        typer.Option("--model", help="The model; needed if there are several."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="KEY=VALUE",
            help="Also replay with a change, e.g. models.NAME.replicas.max=4. May be repeated.",
        ),
    ] = None,
    routing: Annotated[
        Routing, typer.Option(help="How the gateway chooses a replica.")
    ] = Routing.LEAST_REQUEST,
    profile: Annotated[
        str | None,
        typer.Option(help="Step times: a row of services/engine_sim/profiles.json."),
    ] = None,
    unit: Annotated[
        Unit, typer.Option("--timestamp-unit", help="The unit of `timestamp`.")
    ] = Unit.MS,
    speed: Annotated[
        float, typer.Option(callback=_above_zero, help="2: the requests arrive in half the time.")
    ] = 1.0,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out broken lines, and say how many.")
    ] = False,
    json: Json = False,
    png: Annotated[
        Path | None,
        typer.Option(callback=in_a_folder, help="Write a picture of replicas and TTFT over time."),
    ] = None,
) -> None:
    """Serve a recorded load with simulated replicas, before and after a change."""
    environment = find(stack)
    changes = what_if or []
    variants = {"before": [], "after": changes} if changes else {"as planned": []}
    fleets = [
        _fleet(environment, given, model, label=label, routing=routing, profile=profile)
        for label, given in variants.items()
    ]
    result = simulate(
        environment,
        {
            "schema_version": 1,
            "trace": {
                "path": str(trace),
                "timestamp_unit": unit.value,
                "speed": speed,
                "skip_broken": skip_broken,
            },
            "fleets": fleets,
        },
    )
    if png is not None:
        draw(result, png)
        say(f"picture: {png}")
    if json:
        write_json(result)
    else:
        print_tables(replay_table(result, changes))


def _fleet(
    environment: Environment,
    changes: Sequence[str],
    model: str | None,
    *,
    label: str,
    routing: Routing,
    profile: str | None,
) -> JsonObject:
    """What the environment's files, with these changes, say about one model."""
    inputs = load_inputs(
        environment.checkout, environment.name, changes=[parse_change(text) for text in changes]
    )
    _check_profile(profile, inputs)
    return replay_fleet(
        inputs,
        make_plan(inputs, today=datetime.datetime.now(tz=datetime.UTC).date()),
        _chosen(inputs, model),
        label=label,
        routing=routing.value,
        profile=profile,
    )


def _check_profile(profile: str | None, inputs: PlanInputs) -> None:
    known = inputs.artifacts.simulator_profiles
    if profile is not None and profile not in known:
        raise CliError(
            f'--profile: {SIMULATOR_PROFILES} has no row "{profile}"',
            fix=suggestion(profile, known),
            exit_code=WRONG_INPUT,
        )


def _chosen(inputs: PlanInputs, model: str | None) -> str:
    if model is None and len(inputs.models) == 1:
        return next(iter(inputs.models))
    if model is None:
        raise CliError(
            f"{inputs.environment.name} deploys {len(inputs.models)} models; a trace is for one",
            fix=f"add --model with one of: {', '.join(sorted(inputs.models))}",
            exit_code=WRONG_INPUT,
        )
    if model in inputs.models:
        return model
    raise CliError(
        f'{inputs.environment.name} deploys no model "{model}"',
        fix=suggestion(model, inputs.models),
        exit_code=WRONG_INPUT,
    )


def simulate(environment: Environment, document: JsonObject) -> dict[str, Any]:
    """Run services/fleet_replay, which needs nothing but a plain interpreter."""
    finished = subprocess.run(
        [sys.executable, "-E", "-s", str(environment.checkout / PROGRAM)],
        input=jsonlib.dumps(document),
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode == WRONG_DOCUMENT:
        message = finished.stderr.strip()
        fix = TRACE_FIX if message.startswith(document["trace"]["path"]) else DOCUMENT_FIX
        raise CliError(message, fix=fix, exit_code=WRONG_INPUT)
    if finished.returncode:
        lines = finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"]
        raise CliError(
            f"the simulator failed: {lines[-1]}",
            fix="this is a bug: report it with the trace and the environment's files",
            exit_code=FAILED,
        )
    result: dict[str, Any] = jsonlib.loads(finished.stdout)
    return result
