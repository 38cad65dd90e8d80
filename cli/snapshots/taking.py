"""Taking a snapshot outside its times: a run of the platform's own job, by its own permissions."""

from __future__ import annotations

import time

from cli.clusters.nomad import ENDED, Nomad
from cli.clusters.servers import must_answer
from cli.console import say
from cli.errors import CliError
from cli.progress import telling
from components.snapshots.job import JOB_ID

WATCH_S = 10  # for a change, before the time is looked at again
TAKEN_S = 900  # three attempts, a minute apart, on clusters of gigabytes


def take(nomad: Nomad) -> None:
    """Starts the job's next run now and waits for its end. CliError if it fails."""
    with must_answer("Nomad", "whether a snapshot is being taken is not known"):
        run = nomad.run_now(JOB_ID)
        say(f"{run} takes a snapshot")
        _wait(nomad, run)


def _wait(nomad: Nomad, run: str) -> None:
    deadline_s, index, state = time.monotonic() + TAKEN_S, 0, "waits for its host"
    with telling(lambda: f"{run}: {state}"):
        while time.monotonic() < deadline_s:
            allocations, index = nomad.watch_job(run, index, wait_s=WATCH_S)
            states = [str(each["ClientStatus"]) for each in allocations]
            if "complete" in states:
                return
            if states and all(each in ENDED for each in states):
                raise _failed(run, states[0])
            state = states[0] if states else state
    raise _failed(run, f"{state} after {TAKEN_S} s")


def _failed(run: str, state: str) -> CliError:
    return CliError(
        f"no snapshot was taken: {run} is {state}",
        fix='eval "$(slipway env)", then nomad alloc logs -stderr -job '
        f"{run} says why; slipway hosts shows whether its host takes work",
    )
