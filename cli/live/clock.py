"""Times as they are shown."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """A time since the start of the command, e.g. "  0:07" or " 12:34"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:3d}:{rest:02d}"
