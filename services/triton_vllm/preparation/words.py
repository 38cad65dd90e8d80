"""Messages of the weights step to people."""

from __future__ import annotations

import contextlib
import sys


def say(text: str) -> None:
    """Writes to stderr. A message that cannot be written is lost, like a line of the journal."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
