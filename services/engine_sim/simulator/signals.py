"""How the process is asked to end."""

from __future__ import annotations

import asyncio
import signal


def terminated() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second one ends the process at once."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def first(number: signal.Signals) -> None:
        event.set()
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)  # Python's own handler for SIGINT only raises

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first, number)
    return event
