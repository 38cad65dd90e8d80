"""When a source that does not answer is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tenacity

from preparation.errors import MachineError
from preparation.remote.source import Remote, UnavailableError

FRUITLESS_ATTEMPTS = 8  # in a row
LONGEST_PAUSE_S = 60.0
LONGEST_PAUSE_ASKED_S = 600.0  # by the source


@contextmanager
def reachable(remote: Remote) -> Iterator[None]:
    """Raises MachineError if the source is still unavailable after all that."""
    try:
        yield
    except UnavailableError as error:
        raise MachineError(
            f"{remote.description}: {error}",
            fix="check that this host can reach it; the next run resumes where this one ended",
        ) from error


def patiently(
    first_pause_s: float, sleep: Callable[[float], object] = time.sleep
) -> tenacity.Retrying:
    """Calls a function again while it raises UnavailableError, with growing pauses."""
    growing = tenacity.wait_random_exponential(first_pause_s, max=LONGEST_PAUSE_S)

    def pause_s(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked_s = error.retry_after_s if isinstance(error, UnavailableError) else 0
        return max(growing(state), min(asked_s, LONGEST_PAUSE_ASKED_S))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(UnavailableError),
        stop=tenacity.stop_after_attempt(FRUITLESS_ATTEMPTS),
        wait=pause_s,
        sleep=sleep,
        reraise=True,
    )
