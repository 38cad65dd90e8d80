"""`down` on this machine: end every process and remove the stack, even if parts are dead
already."""

from __future__ import annotations

import shutil
import time

import httpx

from cli.applied import Applied, recorded
from cli.clusters.nomad import Nomad
from cli.console import say
from cli.environment import Environment
from cli.lifecycle.local import agents
from cli.progress import REPEAT_S, Phases
from cli.pulumi.locks import clear_stale_locks, exclusive
from cli.pulumi.state import forget

DRAIN_S = 30.0  # time for requests in flight; then the processes are ended


def down(environment: Environment) -> None:
    """Stops jobs through Nomad if it answers, then removes every process, mount and folder of the
    environment, and the stack."""
    phases = Phases()
    with exclusive(environment):
        clear_stale_locks(environment)
        applied = recorded(environment)
        with phases.phase("jobs", "stopped through Nomad, if it answers"):
            _stop_jobs(environment, applied)
        with phases.phase("agents", "ended, with all processes they started"):
            agents.stop(environment, applied)
        with phases.phase("state", "forgotten"):
            forget(environment)
            _remove_folders(environment)
    say(
        f'"{environment.name}" is down; tools, environments and weights stay in {environment.cache}'
    )


def _stop_jobs(environment: Environment, applied: Applied | None) -> None:
    """Asks Nomad to stop all jobs and waits up to DRAIN_S; remaining tasks end with the agents."""
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
            say(f"  {running} tasks are still stopping")


def _remove_folders(environment: Environment) -> None:
    for folder in (environment.run, environment.scratch):
        if folder.is_symlink() or not folder.exists():
            continue
        shutil.rmtree(folder)
