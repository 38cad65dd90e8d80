"""Check whether this machine is ready, and say what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.markup import escape

from cli.console import results, write_json
from cli.environment import Environment, find
from cli.errors import FAILED, CliError
from cli.lifecycle.local.refusals import is_this_machine
from cli.lifecycle.registry import hosts_of, lifecycle_of
from cli.machine import checks
from cli.options import DEFAULT_STACK, Json, Stack
from cli.planning import plan_of
from slipway.config.errors import ConfigError
from slipway.inputs import load_inputs
from stacks.planning import make_plan

app = typer.Typer(add_completion=False)
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@app.command()
def doctor(
    stack: Stack = DEFAULT_STACK,
    json: Json = False,
    *,
    host: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check this host of the environment instead, over SSH."),
    ] = None,
) -> None:
    """Check whether this machine is ready, and say what to do.

    With --host, the same of a host on which nothing of the platform needs to be. Exit code 1 when
    something must be done first.
    """
    environment = find(stack)
    found = list(_checks(environment) if host is None else _checks_of(environment, host))
    if json:
        write_json([dataclasses.asdict(check) for check in found])
    else:
        for check in found:
            _show(check)
    if any(check.state == "fail" for check in found):
        raise typer.Exit(FAILED)


def _checks(environment: Environment) -> Iterator[checks.Check]:
    try:
        lifecycle = lifecycle_of(environment)
    except (CliError, ConfigError) as error:
        yield from checks.machine(environment)
        yield _configuration(environment, error)
        return
    yield from lifecycle.machine_checks()
    try:
        plan = make_plan(load_inputs(environment.checkout, environment.name))
    except ConfigError as error:
        yield _configuration(environment, error)
        return
    yield from lifecycle.plan_checks(plan)


def _checks_of(environment: Environment, host: str) -> Iterable[checks.Check]:
    instead = ("slipway doctor", "checks it")
    hosts = hosts_of(environment, is_this_machine(environment.name, host, *instead))
    return hosts.checks(plan_of(environment), host)


def _configuration(environment: Environment, error: CliError | ConfigError) -> checks.Check:
    if isinstance(error, CliError):
        detail, fix = error.message, error.fix
    else:
        detail = error.problems[0].place_and_message
        fix = f"slipway plan -s {environment.name} shows every mistake"
    return checks.Check(name="configuration", state="fail", detail=detail, fix=fix)


def _show(check: checks.Check) -> None:
    colour = COLOURS[check.state]
    results.print(f"[{colour}]{check.state:<4}[/{colour}]  {check.name:<14} {escape(check.detail)}")
    if check.fix:
        results.print(f"      {'':<14} fix: {escape(check.fix)}")
