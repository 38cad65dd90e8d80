"""The threads that follow the accelerators until the plugin ends."""

from __future__ import annotations

import threading
import time

from accelerators.driver import DriverGoneError

from health.watch import Watch

LOOK_EVERY_S = 5.0
LISTEN_S = 0.5  # an event is told at once; this is how soon the end is noticed
# A driver that has died may hold a call for ever.
PATIENCE_S = 60.0


class Follower:
    """Looks and listens in one thread; another one notices when that one hangs. Neither ends for an
    error: Nomad forgets the devices of a plugin that ends its stream, until its agent starts
    again."""

    def __init__(self, watch: Watch, ended: threading.Event) -> None:
        self._watch = watch
        self._ended = ended
        self._looked_s = time.monotonic()

    def follow(self) -> None:
        while not self._ended.is_set():
            try:
                self._watch.look()
                self._listen(until_s=time.monotonic() + LOOK_EVERY_S)
            except Exception as error:
                self._watch.cannot_read(error)
                self._ended.wait(LOOK_EVERY_S)
            self._looked_s = time.monotonic()

    def guard(self) -> None:
        """Says once for each silence that the driver does not answer."""
        told_s = 0.0
        while not self._ended.wait(LOOK_EVERY_S):
            since_s = self._looked_s
            silence_s = time.monotonic() - since_s
            if silence_s > PATIENCE_S and told_s != since_s:
                told_s = since_s
                self._watch.cannot_wait(silence_s)

    def _listen(self, *, until_s: float) -> None:
        while not self._ended.is_set() and time.monotonic() < until_s:
            try:
                self._watch.listen(LISTEN_S)
            except DriverGoneError:  # the next look says so
                self._ended.wait(LISTEN_S)
                return
