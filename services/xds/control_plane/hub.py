"""The current snapshot, and the listeners to notify of a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .snapshot import Names, Snapshot, changed


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot, and the names of what is not as in the one published before. A listener that has
    not had that one takes `names` to be all."""

    snapshot: Snapshot
    names: Names


Listener = Callable[[Published], None]


class Hub:
    """Passes each changed snapshot to every listener. Listeners must not block."""

    def __init__(self) -> None:
        self.current: Snapshot | None = None
        self._listeners: set[Listener] = set()

    def publish(self, snapshot: Snapshot) -> bool:
        """Returns False, without notifying listeners, if no version differs from the current
        snapshot's."""
        names = changed(self.current, snapshot)
        if self.current is not None and not names:
            return False
        self.current = snapshot
        for listener in tuple(self._listeners):
            listener(Published(snapshot, names))
        return True

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self.current is not None:
            listener(Published(self.current, changed(None, self.current)))

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.discard(listener)
