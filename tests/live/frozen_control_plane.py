"""A model's change while the control plane stands still: Envoy keeps its routes to the old job."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.live.environments import Platform
from tests.live.models import backends, drained, job_of_each_model, replicas_of, serving
from tests.live.processes import processes_of
from tests.live.streaming import Load
from tests.waiting import HANG_S

# A replica that drains serves on while it has a request in flight: it has to have none at times.
PAUSE_S = 0.5
LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenChange:
    """When the control plane went on: whether the routes in Consul named the new jobs (`moved`; the
    replicas of models with `surge: 0` keep their service), and whether every old replica still
    served (`kept`)."""

    load: Load
    moved: bool
    kept: bool
    frozen_s: float
    up_s: float
    log: str


@contextmanager
def control_plane_frozen(platform: Platform) -> Iterator[None]:
    """Its connections stay open and nobody answers, which is worse than a refusal."""
    (process,) = [each for each in processes_of(platform.run) if each.kind == "xds of xds"]
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


async def change_while_frozen(
    platform: Platform, models: Sequence[str], *, frozen_s: float, **engine: object
) -> FrozenChange:
    """Changes keys of the models' engines in one `up`, under streaming load on both protocols. The
    control plane stands still from before the change begins, for `frozen_s` and until the routes
    have moved."""
    old = {model: job_of_each_model(platform)[model] for model in models}
    served = {job: serving(platform, job) for job in old.values()}
    routed = {model: backends(platform, model) for model in models}
    replaced = [each for job in old.values() for each in replicas_of(platform, job)]
    assert all(served.values()), f"not all of {old} have replicas"
    load = Load(platform.http, platform.grpc, list(models), streams_per_protocol=1, pause_s=PAUSE_S)
    async with load:
        for model in models:
            await load.answered(model)
            platform.edit_model(model, **engine)
        began_s = time.monotonic()
        with control_plane_frozen(platform):
            up = asyncio.create_task(asyncio.to_thread(platform.slipway, "up"))
            await asyncio.sleep(frozen_s)
            moved = await _moved(platform, old, routed, up)
            kept = all(before <= serving(platform, job) for job, before in served.items())
        done = await up
        up_s = time.monotonic() - began_s
        await drained(replaced)  # their drain is part of the change
        for model in models:
            await load.answered(model, after=load.sent)
    return FrozenChange(
        load=load, moved=moved, kept=kept, frozen_s=frozen_s, up_s=up_s, log=done.stderr
    )


async def _moved(
    platform: Platform,
    old: Mapping[str, str],
    routed: Mapping[str, list[str]],
    up: asyncio.Task[Any],
) -> bool:
    """Whether the routes name the new jobs; waits for that as long as `up` has not ended."""
    deadline_s = time.monotonic() + HANG_S
    while not all(
        (backends(platform, model) != before) is (before == [old[model]])
        for model, before in routed.items()
    ):
        if up.done() or time.monotonic() > deadline_s:
            return False
        await asyncio.sleep(LOOK_S)
    return True
