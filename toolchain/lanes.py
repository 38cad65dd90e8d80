"""Parallel work: the first failure or an interrupt cancels the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from toolchain.errors import CancelledError
from toolchain.progress import Progress, Step

T = TypeVar("T")

_LOOK_S = 0.5


def side_by_side(work: Mapping[str, Callable[[Step], T]], report: Progress) -> dict[str, T]:
    """Runs everything in `work` in threads; returns results by name.

    The first exception is raised after the others have stopped: their next `Step.tick` raises
    CancelledError.
    """
    if not work:
        return {}
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=len(work), thread_name_prefix="toolchain") as pool:
        try:
            # Submitted inside the try: an interrupt must cancel what already runs, too.
            futures = {
                name: pool.submit(_one, call, Step(name, report, cancelled))
                for name, call in work.items()
            }
            running = set(futures.values())
            while running and not cancelled.is_set():
                # Python does not notice a signal that arrives just before an unlimited wait.
                done, running = wait(running, timeout=_LOOK_S, return_when=FIRST_EXCEPTION)
                if not all(_succeeded(future) for future in done):
                    cancelled.set()
        except BaseException:
            cancelled.set()
            raise
    _raise_first(list(futures.values()))
    return {name: future.result() for name, future in futures.items()}


def _one(call: Callable[[Step], T], step: Step) -> T:
    try:
        result = call(step)
    except CancelledError:
        step.enter("failed", "cancelled")
        raise
    except Exception as error:
        step.enter("failed", str(error).splitlines()[0] if str(error) else repr(error))
        raise
    step.enter("ready")
    return result


def _succeeded(future: Future[T]) -> bool:
    return future.done() and future.exception() is None


def _raise_first(futures: list[Future[T]]) -> None:
    errors = [error for future in futures if (error := future.exception()) is not None]
    causes = [error for error in errors if not isinstance(error, CancelledError)]
    for error in causes or errors:
        raise error
