"""Check whether this machine is ready, and say what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import typer
from rich.markup import escape

from slipway.cli.applied import recorded
from slipway.cli.console import results, write_json
from slipway.cli.environment import Environment, find
from slipway.cli.errors import FAILED, CliError
from slipway.cli.machine import checks
from slipway.cli.options import DEFAULT_STACK, Json, Stack
from slipway.cli.platform.nomad import allocations_now
from slipway.cli.targets import must_have_components
from slipway.config.errors import ConfigError
from slipway.config.inputs import load_inputs
from slipway.planner.platform import make_plan

app = typer.Typer(add_completion=False)
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@app.command()
def doctor(stack: Stack = DEFAULT_STACK, json: Json = False) -> None:
    """Check whether this machine is ready, and say what to do.

    Exit code 1 when something must be done first.
    """
    found = list(_checks(find(stack)))
    if json:
        write_json([dataclasses.asdict(check) for check in found])
    else:
        for check in found:
            _show(check)
    if any(check.state == "fail" for check in found):
        raise typer.Exit(FAILED)


def _checks(environment: Environment) -> Iterator[checks.Check]:
    yield from checks.machine(environment)
    try:
        must_have_components(environment)
        plan = make_plan(load_inputs(environment.checkout, environment.name))
    except CliError as error:
        yield _configuration(error.message, error.fix)
        return
    except ConfigError as error:
        yield _configuration(
            error.problems[0].message,
            f"slipway plan -s {environment.name} shows every mistake",
        )
        return
    yield from checks.free_ports(plan, environment)
    yield checks.memory(plan, allocations_now(environment, recorded(environment)))


def _configuration(detail: str, fix: str) -> checks.Check:
    return checks.Check(name="configuration", state="fail", detail=detail, fix=fix)


def _show(check: checks.Check) -> None:
    colour = COLOURS[check.state]
    results.print(f"[{colour}]{check.state:<4}[/{colour}]  {check.name:<14} {escape(check.detail)}")
    if check.fix:
        results.print(f"      {'':<14} fix: {escape(check.fix)}")
