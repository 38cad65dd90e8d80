"""Changes of a model that its load has scaled out, and jobs that a failed change leaves behind."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.live.environments import CANNOT_START, Platform
from tests.live.fixtures import LEAST, MOST, SLOWER_ANSWERS, STREAMS_PER_PROTOCOL
from tests.live.fixtures import SCALED_MODEL as MODEL
from tests.live.interruptions import interrupt_up
from tests.live.models import (
    backends,
    drained,
    job_of_each_model,
    jobs,
    replicas_of,
    serving,
    wait_for_count,
)
from tests.live.streaming import Load

pytestmark = [pytest.mark.live, pytest.mark.beside]

# The autoscaler looks at a new job several times before its replicas answer.
SLOW_START = {"startup_s": 10}


def counts_asked_for(platform: Platform, job: str) -> list[int]:
    """Every count that a job has been scaled to, by its gate or by the autoscaler."""
    (group,) = platform.nomad(f"job/{job}/scale")["TaskGroups"].values()
    return [event["Count"] for event in group["Events"] or [] if event["Count"] is not None]


def test_a_changed_flag_keeps_the_replicas_that_the_load_needs_and_loses_no_request(
    scaled: Platform,
) -> None:
    """The new job has no load before its route moves; the autoscaler must not scale it in."""
    old = job_of_each_model(scaled)[MODEL]

    async def change() -> tuple[Load, str]:
        async with Load(
            scaled.http, scaled.grpc, [MODEL], streams_per_protocol=STREAMS_PER_PROTOCOL
        ) as load:
            await asyncio.to_thread(wait_for_count, scaled, old, MOST)
            scaled.edit_model(MODEL, **SLOW_START)
            done = await asyncio.to_thread(scaled.slipway, "up")
            await load.answered(MODEL, after=load.sent)
            await drained(replicas_of(scaled, old))
        return load, done.stderr

    load, log = asyncio.run(change())
    new = job_of_each_model(scaled)[MODEL]
    assert new != old
    assert load.failures == [], log[-3000:]
    assert set(counts_asked_for(scaled, new)) == {MOST}
    assert len(serving(scaled, new)) == MOST
    assert backends(scaled, MODEL) == [new]


def test_the_job_that_a_failed_change_leaves_serving_goes_when_nobody_wants_it_any_more(
    scaled: Platform,
) -> None:
    """A preview of files that want it, or an interrupted `up`, does not forget it."""
    old = job_of_each_model(scaled)[MODEL]
    file = scaled.checkout / "models" / f"{MODEL}.yaml"
    wanted_before = file.read_text()
    scaled.edit_model(MODEL, **CANNOT_START)
    assert scaled.slipway("up", check=False).returncode == 1
    assert len(serving(scaled, old)) >= LEAST

    file.write_text(wanted_before)
    said = scaled.slipway("preview").stderr
    assert f"up keeps these jobs, shown as deleted here: {old}\n" in said
    interrupt_up(scaled, r"pulumi: resources", signal.SIGINT)
    assert len(serving(scaled, old)) >= LEAST
    scaled.edit_model(MODEL, max_num_seqs=16, **SLOWER_ANSWERS, startup_s=0)
    scaled.up()
    running = {job["ID"] for job in jobs(scaled) if job["ID"].startswith(f"model-{MODEL}")}
    assert running == {job_of_each_model(scaled)[MODEL]}
    assert old not in running
    scaled.slipway("preview", "--expect-no-changes")
