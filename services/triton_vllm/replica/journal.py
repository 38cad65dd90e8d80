"""The messages of this service's programs: one JSON object per line."""

from __future__ import annotations

import contextlib
import io
import json
import time
from datetime import datetime, timezone
from typing import Any, TextIO


class Journal:
    """Writes events to a stream, each with the seconds since the program started.

    A line that cannot be written is lost: the scheduler's log collector may be away for a while,
    which must not stop a replica from serving or from ending completely.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else _standard_output()
        self._started_at = time.monotonic()

    def progress(self, phase: str, **facts: Any) -> None:
        """Reports that a phase was reached, or is still under way."""
        self._write("info", "progress", phase=phase, **facts)

    def warning(self, message: str, **facts: Any) -> None:
        self._write("warning", "warning", message=message, **facts)

    def error(self, message: str, **facts: Any) -> None:
        self._write("error", "error", message=message, **facts)

    def _write(self, level: str, event: str, **facts: Any) -> None:
        line = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            "elapsed_s": round(time.monotonic() - self._started_at, 3),
            **facts,
        }
        with contextlib.suppress(OSError):
            print(json.dumps(line), file=self._stream, flush=True)


def _standard_output() -> TextIO:
    """Unbuffered: a buffer would keep what cannot be written, and fail at the program's exit."""
    return io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
