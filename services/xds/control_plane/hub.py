"""The current snapshot, and the listeners to notify of a new one."""

from __future__ import annotations

from collections.abc import Callable

from .snapshot import ResourceType, Snapshot

Listener = Callable[[Snapshot], None]


class Hub:
    """Passes each changed snapshot to every listener. Listeners must not block."""

    def __init__(self) -> None:
        self.current: Snapshot | None = None
        self._listeners: set[Listener] = set()

    def publish(self, snapshot: Snapshot) -> bool:
        """Returns False, without notifying listeners, if no version differs from the current
        snapshot's."""
        if self.current is not None and _versions(self.current) == _versions(snapshot):
            return False
        self.current = snapshot
        for listener in tuple(self._listeners):
            listener(snapshot)
        return True

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self.current is not None:
            listener(self.current)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.discard(listener)


def _versions(snapshot: Snapshot) -> dict[tuple[ResourceType, str], str]:
    return {
        (resource_type, name): resource.version
        for resource_type, resources in snapshot.resources.items()
        for name, resource in resources.items()
    }
