"""A model's change while the control plane stands still: Envoy keeps its routes to the old job."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.live.environments import Platform
from tests.live.models import backends, drained, job_of_each_model, jobs, replicas_of
from tests.live.processes import processes_of
from tests.live.streaming import Load

# A replica that drains serves on while it has a request in flight: it has to have none at times.
PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenChange:
    """When the control plane went on: whether the route in Consul named the new job (`moved`), and
    whether Nomad still ran the old one (`kept`)."""

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
    platform: Platform, model: str, *, frozen_s: float, **engine: object
) -> FrozenChange:
    """Changes keys of a model's engine under streaming load on both protocols. The control plane
    stands still from before the change begins, for `frozen_s`."""
    old = job_of_each_model(platform)[model]
    replaced = replicas_of(platform, old)
    assert replaced, f"{old} has no replicas"
    load = Load(platform.http, platform.grpc, [model], streams_per_protocol=1, pause_s=PAUSE_S)
    async with load:
        await load.answered(model, after_s=0)
        platform.edit_model(model, **engine)
        began_s = time.monotonic()
        with control_plane_frozen(platform):
            up = asyncio.create_task(asyncio.to_thread(platform.slipway, "up"))
            await asyncio.sleep(frozen_s)
            moved = backends(platform, model) == [job_of_each_model(platform)[model]] != [old]
            kept = old in {job["ID"] for job in jobs(platform)}
        done = await up
        up_s = time.monotonic() - began_s
        await drained(replaced)  # their drain is part of the change
        await load.answered(model, after_s=time.monotonic())
    return FrozenChange(
        load=load, moved=moved, kept=kept, frozen_s=frozen_s, up_s=up_s, log=done.stderr
    )
