"""Reports what the weights step is doing, for as long as it does it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from replica.journal import Journal

HEARTBEAT_S = 5.0


@contextlib.contextmanager
def heartbeat(journal: Journal, phase: str) -> Iterator[dict[str, Any]]:
    """Reports a phase at its start and every few seconds while it lasts, with the newest facts."""
    journal.progress(phase)
    done = threading.Event()
    facts: dict[str, Any] = {}

    def beat() -> None:
        while not done.wait(HEARTBEAT_S):
            journal.progress(phase, **facts)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield facts
    finally:
        done.set()
        thread.join()
