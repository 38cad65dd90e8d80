"""The thread that follows the accelerators until the plugin ends."""

from __future__ import annotations

import threading
import time

from accelerators.driver import DriverGoneError

from health.watch import Watch

LOOK_EVERY_S = 5.0
LISTEN_S = 0.5  # an event is told at once; this is how soon the end is noticed


def follow(watch: Watch, ended: threading.Event) -> None:
    while not ended.is_set():
        watch.look()
        _listen(watch, ended, until_s=time.monotonic() + LOOK_EVERY_S)


def _listen(watch: Watch, ended: threading.Event, *, until_s: float) -> None:
    while not ended.is_set() and time.monotonic() < until_s:
        try:
            watch.listen(LISTEN_S)
        except DriverGoneError:  # the next look says so
            ended.wait(LISTEN_S)
            return
