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
from cli.progress import Phases, telling
from cli.pulumi.locks import clear_stale_locks, exclusive
from cli.pulumi.state import forget

DRAIN_S = 30.0  # time for requests in flight; then the processes are ended


def down(environment: Environment) -> None:
    """Stops jobs through Nomad if it answers, then removes every process, mount and folder of the
    environment, and the stack."""
    phases = Phases(f"down {environment.name}")
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
    deadline_s, index, running = time.monotonic() + DRAIN_S, 0, 1
    with telling(lambda: f"tasks that are still stopping: {running}"):
        while running and (left_s := deadline_s - time.monotonic()) > 0:
            running, index = nomad.watch_running(index, wait_s=max(1, round(left_s)))


def _remove_folders(environment: Environment) -> None:
    for folder in (environment.run, environment.scratch):
        if folder.is_symlink() or not folder.exists():
            continue
        shutil.rmtree(folder)
