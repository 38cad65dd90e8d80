"""The engine on a simulated clock: what it makes of time, to the millisecond."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_sim_process import document
from program.liveness.progress import Progress, Seen
from simulated_clock import now_s, simulated
from simulator.core.step_time import load_profile
from simulator.document import Replica, read_replica
from simulator.engine import Engine, Request
from simulator.faults import NONE, Faults
from simulator.inflight import InFlight

PROFILE = load_profile(
    Path(__file__).parent.parent / "profiles.json",
    profile="h100-fp8",
    architecture="llama-3.1-8b",
)
TOKENS = 20
SLOW = Faults(slow=5)


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return read(tmp_path)


def read(folder: Path, **engine: Any) -> Replica:
    path = folder / "replica.json"
    path.write_text(json.dumps(document(**engine)), "utf-8")
    return read_replica(path)


@asynccontextmanager
async def running(replica: Replica, progress: Progress | None = None) -> AsyncIterator[Engine]:
    engine = Engine(replica, PROFILE, progress or Progress.create())
    steps = asyncio.create_task(engine.run())
    yield engine
    steps.cancel()


async def loaded(engine: Engine) -> None:
    while not engine.ready:
        await asyncio.sleep(0.1)


async def answer_times_s(replica: Replica, own: Faults, of_all: Faults) -> list[float]:
    """When each token of an answer came, from its request on."""
    async with running(replica) as engine:
        await loaded(engine)
        engine.set_faults(of_all)
        asked_s, times_s = now_s(), []
        request = Request(prompt="x", max_tokens=TOKENS, faults=own)
        with engine.generate(request) as generation:
            async for delta in generation.deltas():
                times_s += [now_s() - asked_s] * delta.tokens
    return times_s


def test_a_token_takes_as_long_as_the_profile_says(replica: Replica) -> None:
    times_s = simulated(answer_times_s(replica, NONE, NONE))
    first, *others = [PROFILE.pass_ms(1, 0, 0), *(PROFILE.pass_ms(0, 1, n) for n in range(2, 21))]
    assert times_s[0] == pytest.approx(first / 1000)
    assert times_s[-1] == pytest.approx((first + sum(others)) / 1000)


@pytest.mark.parametrize(("own", "of_all"), [(SLOW, NONE), (NONE, SLOW)])
def test_slow_stretches_time_for_one_request_or_for_all(
    replica: Replica, own: Faults, of_all: Faults
) -> None:
    plain_s = simulated(answer_times_s(replica, NONE, NONE))
    slow_s = simulated(answer_times_s(replica, own, of_all))
    assert slow_s == pytest.approx([5 * each for each in plain_s])


def test_it_is_ready_once_its_loading_has_taken_its_time(tmp_path: Path) -> None:
    async def ready_after_s() -> float:
        async with running(read(tmp_path, startup_s=90)) as engine:
            await loaded(engine)
            return now_s()

    assert simulated(ready_after_s()) == pytest.approx(90, abs=0.1)


def test_a_drain_waits_for_its_requests_and_no_longer_than_its_limit() -> None:
    async def drained(request_s: float) -> tuple[bool, float]:
        in_flight = InFlight()

        async def answered() -> None:
            with in_flight.request():
                await asyncio.sleep(request_s)

        request = asyncio.create_task(answered())
        await asyncio.sleep(0)
        idle = await in_flight.wait_idle(600)
        request.cancel()
        return idle, now_s()

    assert simulated(drained(request_s=30)) == (True, pytest.approx(30))
    assert simulated(drained(request_s=10_000)) == (False, pytest.approx(600))


async def progress_of(replica: Replica, faults: Faults, tokens: int) -> list[Seen]:
    """Before a request, half an hour after it, and after its end."""
    progress = Progress.create()
    async with running(replica, progress) as engine:
        await loaded(engine)
        engine.set_faults(faults)
        seen = [progress.seen()]
        with engine.generate(Request(prompt="x", max_tokens=tokens)):
            await asyncio.sleep(1800)
            seen.append(progress.seen())
        seen.append(progress.seen())
    return seen


def test_it_tells_the_steps_that_have_ended_and_the_requests_outstanding(replica: Replica) -> None:
    assert simulated(progress_of(replica, NONE, 5)) == [Seen(0, 0), Seen(5, 0), Seen(5, 0)]


def test_steps_that_are_frozen_do_not_end(replica: Replica) -> None:
    frozen = simulated(progress_of(replica, Faults(hang=0), 5))
    assert frozen == [Seen(0, 0), Seen(0, 1), Seen(0, 0)]


def test_a_scheduler_without_memory_for_its_requests_still_moves(replica: Replica) -> None:
    before, waiting, after = simulated(progress_of(replica, Faults(kv_full=True), 5))
    assert (before.steps, waiting.outstanding, after.outstanding) == (0, 1, 0)
    assert waiting.steps > 1000
