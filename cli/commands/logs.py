"""Show what a replica prints, or an agent of a host."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from cli.applied import Applied
from cli.clusters.nomad import Nomad
from cli.clusters.tasks import fails, has_started, state_of, task_names, telling_task
from cli.console import say
from cli.environment import Environment, find
from cli.errors import WRONG_INPUT, CliError
from cli.hosts.roster import member
from cli.hosts.unit_logs import show_file
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.planning import plan_of

app = typer.Typer(add_completion=False)

Allocations = Sequence[dict[str, Any]]


@app.command()
def logs(
    job: Annotated[
        str, typer.Argument(help="A job's ID or the name of a model; before a UNIT, a host.")
    ],
    unit: Annotated[
        str | None, typer.Argument(help="An agent of the host: consul, nomad, ….")
    ] = None,
    stack: Stack = DEFAULT_STACK,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines.")
    ] = False,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=1, help="Only the last N lines.")
    ] = None,
    replica: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Another replica: its number, or a prefix of its allocation's ID."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Another task of the replica.")] = None,
    stderr: Annotated[
        bool, typer.Option("--stderr", help="Standard error instead of standard output.")
    ] = False,
) -> None:
    """Show what a replica prints, or an agent of a host.

    Of a job's replicas, a failing one first, else the newest; of its tasks, the one that failed,
    else the one that runs, else the main one.
    """
    environment = find(stack)
    if unit is not None:
        _refuse({"--replica": replica, "--task": task, "--stderr": stderr})
        _show_unit(environment, job, unit, lines, follow=follow)
        return
    stream = "stderr" if stderr else "stdout"
    with lifecycle_of(environment).asked() as applied, Nomad.of(environment, applied) as nomad:
        stub = _chosen(_allocations(nomad, applied, job), replica)
        allocation = nomad.allocation(stub["ID"])
        shown = _task(allocation, task)
        say(
            f"{allocation['Name']} on {allocation['NodeName']} ({allocation['ID'][:8]}), task"
            f" {shown}, {state_of(allocation, shown)}: {stream}"
        )
        offset = 0
        if lines is not None:
            so_far = nomad.log(allocation["ID"], shown, stream, follow=False)
            last, offset = _tail(so_far, lines)
            _print([last])
        if lines is None or follow:
            _print(nomad.log(allocation["ID"], shown, stream, follow=follow, offset=offset))


def _show_unit(
    environment: Environment, host: str, unit: str, lines: int | None, *, follow: bool
) -> None:
    plan = plan_of(environment)
    if (machines := lifecycle_of(environment).hosts) is not None:
        machines.show_unit(plan, host, unit, lines=lines, follow=follow)
    else:
        show_file(environment.logs, member(plan, host), unit, lines=lines, follow=follow)


def _refuse(options: Mapping[str, object]) -> None:
    """Options of a replica, if they were given."""
    for name, value in options.items():
        if value:
            raise CliError(
                f"{name} chooses among replicas, but an agent of a host was named",
                fix=f"leave out {name}, or the agent",
                exit_code=WRONG_INPUT,
            )


def _allocations(nomad: Nomad, applied: Applied, job: str) -> Allocations:
    model = applied.model(job)
    job_id = model.job_id if model else job
    if found := nomad.allocations_of(job_id):
        return found
    known = sorted(each["ID"] for each in nomad.jobs())
    if job_id in known:
        raise CliError(
            f"job {job_id} has no replica yet: it waits for a node",
            fix="slipway status shows the nodes; slipway plan shows what fits on them",
        )
    raise CliError(
        f'no job "{job}" has run in "{applied.environment}"',
        fix=f"use one of: {', '.join(known)}",
        exit_code=WRONG_INPUT,
    )


def _chosen(newest_first: Allocations, replica: str | None) -> dict[str, Any]:
    if replica is None:
        wanted = [each for each in newest_first if each["DesiredStatus"] == "run"] or newest_first
        return next((each for each in wanted if fails(each)), wanted[0])
    named = [each for each in newest_first if each["Name"].endswith(f"[{replica}]")]
    if found := named or [each for each in newest_first if each["ID"].startswith(replica)]:
        return found[0]
    known = sorted({each["Name"].rpartition("[")[2].rstrip("]") for each in newest_first})
    raise CliError(
        f'--replica: no replica "{replica}"',
        fix=f"use one of: {', '.join(known)}",
        exit_code=WRONG_INPUT,
    )


def _task(allocation: dict[str, Any], asked_for: str | None) -> str:
    task, known = asked_for or telling_task(allocation), task_names(allocation)
    if task not in known:
        raise CliError(
            f'job {allocation["JobID"]} has no task "{task}"',
            fix=f"use one of: {', '.join(known)}",
            exit_code=WRONG_INPUT,
        )
    if not has_started(allocation, task):
        raise CliError(
            f"task {task} of {allocation['Name']} has not printed anything: it has not started,"
            f" {state_of(allocation, task)}",
            fix="try again in a moment; slipway status shows what it waits for",
        )
    return task


def _tail(parts: Iterable[bytes], lines: int) -> tuple[bytes, int]:
    """The last lines, and the total number of bytes."""
    kept: deque[bytes] = deque(maxlen=lines)
    total, rest = 0, b""
    for part in parts:
        total += len(part)
        *whole, rest = (rest + part).split(b"\n")
        kept.extend(line + b"\n" for line in whole)
    if rest:
        kept.append(rest)
    return b"".join(kept), total


def _print(parts: Iterable[bytes]) -> None:
    for part in parts:
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
