"""What the weights step says to people."""

from __future__ import annotations

import contextlib
import sys


def say(text: str) -> None:
    """On stderr. Lost where it cannot be written, as a line of the journal is."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
