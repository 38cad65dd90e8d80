"""The steps of a measurement: each of some numbers of clients, over each of some protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.bench.client_watch import ClientLoad, ClientWatch, bottleneck
from cli.bench.figures import Figures, figures_of
from cli.bench.load import Run, drive
from cli.bench.outcome import Door, Failed
from cli.errors import CliError

if TYPE_CHECKING:
    from cli.bench.workload import Workload

# A model that fails now and then is measured: its errors are counted.
FIRST_QUESTIONS = 3

Tell = Callable[["Step", Run], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """So many requests of so many clients, over a protocol of slipway.plan.platform.PROTOCOLS."""

    protocol: str
    clients: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a step gave. `dropped` requests were in flight when it was interrupted; `limited` says
    why the client limited the figures, if it did."""

    step: Step
    figures: Figures
    client: ClientLoad
    limited: str
    interrupted: bool
    dropped: int


@dataclass(slots=True, kw_only=True)
class Measurement:
    """The steps that have ended, the last of which may be incomplete. The rest is missing where it
    was `interrupted` or `failed`."""

    measured: list[Measured] = field(default_factory=list)
    interrupted: bool = False
    failed: CliError | None = None


async def measure(
    doors: Mapping[str, Door], steps: Sequence[Step], workload: Workload, tell: Tell
) -> Measurement:
    """Takes the steps in their order; `tell` is called when one begins, with what grows while it
    runs. One question over each protocol is asked before and not counted. Where that has no answer,
    or Ctrl-C ends it, what was measured before is returned; without any, CliError or CancelledError
    is raised."""
    found = Measurement()
    try:
        await _take(doors, steps, workload, tell, found)
    except asyncio.CancelledError:
        if not found.measured:
            raise
        if (own := asyncio.current_task()) is not None:
            own.uncancel()
        found.interrupted = True
    except CliError as error:
        if not found.measured:
            raise
        found.failed = error
    return found


async def _take(
    doors: Mapping[str, Door],
    steps: Sequence[Step],
    workload: Workload,
    tell: Tell,
    found: Measurement,
) -> None:
    asked, warm = 0, set[str]()
    for step in steps:
        door = doors[step.protocol]
        if step.protocol not in warm:
            await _warm_up(door, workload)
            warm.add(step.protocol)
        run, watch = Run(clients=step.clients), ClientWatch()
        tell(step, run)
        await drive(door, [*workload.asked(step.requests, after=asked)], run, watch)
        asked += step.requests
        found.measured.append(_measured(step, run, watch.load))
        if run.interrupted:
            found.interrupted = True
            break


async def _warm_up(door: Door, workload: Workload) -> None:
    """Connections, code and caches of the first question would be in its time."""
    prompt, said = workload.first, ""
    async with door.client() as ask:
        for _ in range(FIRST_QUESTIONS):
            outcome = await ask(prompt)
            if not isinstance(outcome, Failed):
                return
            said = f"{outcome.kind}: {outcome.said}"
    raise CliError(
        f"{FIRST_QUESTIONS} first questions had no answer; the last: {said}",
        fix="slipway status shows the models and their replicas; slipway chat asks one question",
    )


def _measured(step: Step, run: Run, client: ClientLoad) -> Measured:
    figures = figures_of(run.outcomes)
    return Measured(
        step=step,
        figures=figures,
        client=client,
        limited=bottleneck(client, figures),
        interrupted=run.interrupted,
        dropped=run.in_flight,
    )


def run_measurement(
    doors: Mapping[str, Door], steps: Sequence[Step], workload: Workload, tell: Tell
) -> Measurement:
    """`measure` in a loop of its own; the doors are closed at its end."""

    async def whole() -> Measurement:
        try:
            return await measure(doors, steps, workload, tell)
        finally:
            for door in doors.values():
                await door.close()

    return asyncio.run(whole())
