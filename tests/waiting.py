"""Waits for what must come. The end of a wait only ends a hang: it is never what a test claims."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")

HANG_S = 300.0


def until(
    look: Callable[[], Answer | None],
    what: str = "it",
    *,
    pause_s: float = 0.05,
    log: Path | None = None,
) -> Answer:
    """The first answer that is true, of a look every `pause_s`; else fails with the log's end."""
    deadline_s = time.monotonic() + HANG_S
    while not (answer := look()):
        said = log.read_text()[-3000:] if log and log.exists() else ""
        assert time.monotonic() < deadline_s, f"{what} has not come: {answer!r}\n{said}"
        time.sleep(pause_s)
    return answer
