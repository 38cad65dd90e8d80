"""End the environment and remove its state."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Annotated

import httpx
import typer

from slipway.cli.applied import Applied, recorded
from slipway.cli.console import say
from slipway.cli.environment import Environment, find
from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.cli.options import DEFAULT_STACK, Stack
from slipway.cli.platform import agents
from slipway.cli.platform.nomad import Nomad
from slipway.cli.progress import REPEAT_S, Phases
from slipway.cli.pulumi.locks import clear_stale_locks, exclusive
from slipway.cli.pulumi.state import forget

app = typer.Typer(add_completion=False)

DRAIN_S = 30.0  # answers under way get this long; the processes are ended afterwards


@app.command()
def down(
    stack: Stack = DEFAULT_STACK,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
) -> None:
    """End the environment and remove its state.

    Works whatever has died before: jobs are stopped through Nomad when it answers; then every
    process, mount and folder of the environment goes, and Pulumi forgets the stack.
    """
    environment = find(stack)
    _confirm(environment, sure=yes)
    phases = Phases()
    with exclusive(environment):
        clear_stale_locks(environment)
        applied = recorded(environment)
        with phases.phase("jobs", "stopped through Nomad, when it answers"):
            _stop_jobs(environment, applied)
        with phases.phase("agents", "ended, with everything they started"):
            agents.stop(environment, applied)
        with phases.phase("state", "forgotten"):
            forget(environment)
            _remove_folders(environment)
    say(
        f'"{environment.name}" is down; tools, environments and weights stay in {environment.cache}'
    )


def _confirm(environment: Environment, *, sure: bool) -> None:
    if sure:
        return
    if not sys.stdin.isatty():
        raise CliError(
            f'"{environment.name}" would be taken down, and nobody is there to be asked',
            fix=f"slipway down -s {environment.name} --yes",
            exit_code=WRONG_INPUT,
        )
    question = f'End everything in "{environment.name}" and remove its state?'
    if not typer.confirm(question, err=True):
        raise typer.Exit(0)


def _stop_jobs(environment: Environment, applied: Applied | None) -> None:
    """Asks Nomad to stop all jobs and waits up to DRAIN_S; the rest ends with the agents."""
    if applied is None:
        return
    with Nomad.of(environment, applied) as nomad:
        if not nomad.has_leader():
            say("  Nomad does not answer: the processes are ended without it")
            return
        try:
            for job in nomad.jobs():
                nomad.remove_job(job["ID"])
            _wait_for_end(nomad)
        except httpx.HTTPError as error:
            say(f"  Nomad: {error}: the processes are ended without it")


def _wait_for_end(nomad: Nomad) -> None:
    shown_s = started_s = time.monotonic()
    index = 0
    while (left_s := started_s + DRAIN_S - time.monotonic()) > 0:
        running, index = nomad.watch_running(index, wait_s=max(1, round(min(left_s, REPEAT_S))))
        if not running:
            return
        if time.monotonic() - shown_s >= REPEAT_S:
            shown_s = time.monotonic()
            say(f"  {running} tasks are still ending")


def _remove_folders(environment: Environment) -> None:
    for folder in (environment.run, environment.scratch):
        if folder.is_symlink() or not folder.exists():
            continue
        shutil.rmtree(folder)
