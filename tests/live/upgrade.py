"""A running environment of an earlier revision, upgraded to this checkout under streaming load."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.environment import find
from components.nomad.agent_config import KEY_PUBLISHER
from tests.live.environments import Platform, copy_tree, last_json_line
from tests.live.failures import FLEETING
from tests.live.footprint import scratch
from tests.live.models import drained, job_of_each_model, replicas_of
from tests.live.processes import Process, processes_of
from tests.live.streaming import Load

# A replica that drains serves on while it has a request in flight: it has to have none at times.
PAUSE_S = 0.5
UP_S, UNDER_LOAD_S = 150, 240  # limits: they take 30 s and 60 s on two cores
KEPT = (".slipway", ".venv")  # what `git pull` leaves alone, beside the environment's own files
OPERATIONS = ("create", "update", "replace", "delete")  # "same" and "refresh" change nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """`operations` has the resources by what Pulumi said it would do with them, `done` their number
    by what it did."""

    operations: dict[str, list[str]]
    done: dict[str, int]
    rolled: dict[str, str]  # models whose job is another one now: their old jobs
    load: Load
    up_s: float
    envoy_kept: bool  # the same process of the same allocation
    ended: list[Process]  # that ran before and were gone afterwards
    empty_preview: bool

    @property
    def as_previewed(self) -> bool:
        return self.done == {each: len(names) for each, names in self.operations.items() if names}

    @property
    def removed_without_need(self) -> list[str]:
        """Replaced or deleted, and not the job of a model whose spec has changed."""
        needed = {f"Job model-{model}" for model in self.rolled}
        removed = self.operations["replace"] + self.operations["delete"]
        return [name for name in removed if name not in needed]

    @property
    def ended_without_need(self) -> list[str]:
        """Kinds of processes of no replaced replica, and not of the control plane or the publisher
        of keys, whose code changes with the checkout."""
        jobs = tuple(f" of {job}" for job in (*self.rolled.values(), "xds"))
        changed = {each.allocation for each in self.ended if each.kind.endswith(jobs)}
        others = [each.kind for each in self.ended if each.allocation not in changed]
        return [kind for kind in others if not kind.startswith(f"{KEY_PUBLISHER} on ")]

    @property
    def met(self) -> bool:
        return (
            not self.load.failures
            and self.as_previewed
            and not self.removed_without_need
            and not self.ended_without_need
            and self.envoy_kept
            and self.empty_preview
        )


async def upgrade_under_load(platform: Platform, models: Sequence[str]) -> Upgrade:
    """Puts this checkout's files under a running environment and runs `up`. The models are
    simulated ones of that environment."""
    before, jobs = processes(platform), job_of_each_model(platform)
    replicas = {model: replicas_of(platform, job) for model, job in jobs.items()}
    own = [platform.checkout / f"Pulumi.{platform.name}.yaml"]
    own += [platform.checkout / "models" / f"{model}.yaml" for model in models]
    replace_checkout(platform.checkout, own)
    operations = await asyncio.to_thread(planned, platform)
    load = Load(platform.http, platform.grpc, list(models), pause_s=PAUSE_S)
    async with asyncio.timeout(UNDER_LOAD_S), load:
        for model in models:
            await load.answered(model)
        report = await asyncio.to_thread(bounded_up, platform)
        jobs_after = job_of_each_model(platform)
        rolled = {model: job for model, job in jobs.items() if jobs_after.get(model) != job}
        # The drain of replaced replicas is part of the change.
        await drained([replica for model in rolled for replica in replicas[model]])
        for model in models:
            await load.answered(model, after=load.sent)
    after = processes(platform)
    again = await asyncio.to_thread(platform.slipway, "preview", "--expect-no-changes", check=False)
    return Upgrade(
        operations=operations,
        done=done_by_last_update(platform),
        rolled=rolled,
        load=load,
        up_s=report["seconds"],
        envoy_kept=envoys(before) == envoys(after) != [],
        ended=[process for process in before if process not in after],
        empty_preview=again.returncode == 0,
    )


def bounded_up(platform: Platform) -> dict[str, Any]:
    return last_json_line(platform.slipway("up", "--json", timeout_s=UP_S).stdout)


def replace_checkout(checkout: Path, own: Iterable[Path]) -> None:
    """This checkout's files in place of the earlier ones. What git does not know stays, and so do
    the environment's own files."""
    kept = {path: path.read_bytes() for path in own}
    for path in checkout.rglob("*"):
        known = path.relative_to(checkout).parts[0] not in KEPT
        if known and (path.is_file() or path.is_symlink()):
            path.unlink()
    copy_tree(checkout)
    for path, content in kept.items():
        path.write_bytes(content)


def planned(platform: Platform) -> dict[str, list[str]]:
    return operations(platform.slipway("preview", "--json").stdout)


def operations(preview: str) -> dict[str, list[str]]:
    """What the next `up` does: types and names of Pulumi's resources by operation."""
    steps = json.loads(preview)["steps"]
    return {
        operation: sorted(resource(step["urn"]) for step in steps if step["op"] == operation)
        for operation in OPERATIONS
    }


def resource(urn: str) -> str:
    """Type and name: "Job envoy" of "…::slipway:index:Gateway$nomad:index/job:Job::envoy"."""
    *_, kind, name = urn.split("::")
    return f"{kind.rpartition(':')[2]} {name}"


def done_by_last_update(platform: Platform) -> dict[str, int]:
    """How many resources the last `up` changed, by operation."""
    environment = find(platform.name, checkout=platform.checkout)
    command = [str(environment.pulumi), "stack", "history", "--json", "--stack", platform.name]
    history = subprocess.run(
        command,
        cwd=platform.checkout,
        env=environment.child_environment(),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    changes: dict[str, int] = json.loads(history)[0]["resourceChanges"]
    return {operation: changes[operation] for operation in OPERATIONS if operation in changes}


def processes(platform: Platform) -> list[Process]:
    found = processes_of(platform.run, scratch(platform))
    return [process for process in found if not process.kind.startswith(FLEETING)]


def envoys(found: list[Process]) -> list[Process]:
    """With their process ids and allocations."""
    return [process for process in found if process.kind == "envoy of envoy"]
