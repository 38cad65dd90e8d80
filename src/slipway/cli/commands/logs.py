"""Show what a job's newest allocation prints."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from slipway.cli.applied import Applied, require
from slipway.cli.environment import find
from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.cli.options import DEFAULT_STACK, Stack
from slipway.cli.platform.nomad import Nomad, main_task, task_names

app = typer.Typer(add_completion=False)


@app.command()
def logs(
    job: Annotated[str, typer.Argument(help="A job's ID, or the name of a model.")],
    stack: Stack = DEFAULT_STACK,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it prints.")] = False,
    task: Annotated[str | None, typer.Option(help="A task other than the main one.")] = None,
    stderr: Annotated[bool, typer.Option("--stderr", help="Its errors instead.")] = False,
) -> None:
    """Show what a job's newest allocation prints."""
    environment = find(stack)
    applied = require(environment)
    with Nomad.of(environment, applied) as nomad:
        newest = _newest(nomad, applied, job)
        known = task_names(newest)
        chosen = task or main_task(newest)
        if chosen not in known:
            raise CliError(
                f'job {newest["JobID"]} has no task "{chosen}"',
                fix=f"use one of: {', '.join(known)}",
                exit_code=WRONG_INPUT,
            )
        stream = "stderr" if stderr else "stdout"
        for part in nomad.log(newest["ID"], chosen, stream, follow=follow):
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


def _newest(nomad: Nomad, applied: Applied, job: str) -> dict[str, Any]:
    model = applied.model(job)
    allocations = nomad.allocations_of(model.job_id if model else job)
    if allocations:
        return nomad.allocation(allocations[0]["ID"])
    known = sorted(found["ID"] for found in nomad.jobs())
    raise CliError(
        f'no job "{job}" has run in "{applied.environment}"',
        fix=f"use one of: {', '.join(known)}",
        exit_code=WRONG_INPUT,
    )
