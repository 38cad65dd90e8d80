"""The process: reads its input, and serves the model or passes on steps of a group."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

from program.liveness.progress import VARIABLE, Progress

from simulator.core.step_time import Profile, UnknownProfileError, load_profile
from simulator.document import BadInputError, Replica, read_listeners, read_replica
from simulator.engine import Engine
from simulator.group.headless import run_headless
from simulator.group.pipeline import GroupPipeline, OneStage
from simulator.group.place import Place, add_options, read_place

Run = Callable[[], Coroutine[None, None, int]]

_LOG = logging.getLogger("engine_sim")
_PROFILES = Path(__file__).parent.parent / "profiles.json"
_BEAT_S = 0.25


def main() -> int:
    """Exit codes: 0 drained, 1 cannot listen on a port, has no group or the engine failed (also at
    its start), 2 wrong input."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("grpc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description="A simulated inference engine.")
    parser.add_argument("--document", type=Path, required=True, help="replica.json")
    add_options(parser)
    arguments = parser.parse_args()
    try:
        replica = read_replica(arguments.document)
        place = read_place(arguments, os.environ, replica.engine.pipeline_parallel_size)
        progress = _progress()
        run = _run_of(replica, place, progress)
    except BadInputError as error:
        _LOG.error("%s", error)
        return 2
    if replica.engine.faults.no_start:
        _LOG.error("%s does not start, because of the fault no_start", replica.model)
        return 1
    gc.freeze()  # everything loaded by now is permanent: the garbage collector can skip it
    return asyncio.run(_with_beats(run, progress))


def _progress() -> Progress:
    watched = os.environ.get(VARIABLE)
    return Progress.open(watched) if watched else Progress.create()


def _run_of(replica: Replica, place: Place | None, progress: Progress) -> Run:
    if place is not None and place.headless:
        return partial(run_headless, replica, place, progress)
    from simulator.server import serve  # noqa: PLC0415  (gRPC is half of a process's memory)

    pipeline = (
        OneStage() if place is None else GroupPipeline(place, replica.model, replica.load_timeout_s)
    )
    listeners = read_listeners(os.environ)
    return partial(serve, listeners, Engine(replica, _profile(replica), progress, pipeline))


def _profile(replica: Replica) -> Profile:
    engine = replica.engine
    try:
        return load_profile(_PROFILES, profile=engine.profile, architecture=engine.architecture)
    except UnknownProfileError as error:
        raise BadInputError(f"engine.profile: {error}") from error


async def _with_beats(run: Run, progress: Progress) -> int:
    beating = asyncio.create_task(_beat(progress))
    try:
        return await run()
    finally:
        beating.cancel()


async def _beat(progress: Progress) -> None:
    """Tells the watcher that this loop turns, also while the engine has nothing to do."""
    while True:
        progress.beat(0)
        await asyncio.sleep(_BEAT_S)
