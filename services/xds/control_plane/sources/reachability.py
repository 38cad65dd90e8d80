"""Since when Consul has not been answering, per query."""

from __future__ import annotations

from collections.abc import Callable


class Reachability:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failing_since_s: dict[str, float] = {}

    def reached(self, query: str) -> None:
        self._failing_since_s.pop(query, None)

    def failed(self, query: str) -> bool:
        """True for the first failure in a row: the one worth a log line."""
        first = query not in self._failing_since_s
        self._failing_since_s.setdefault(query, self._clock())
        return first

    def forget(self, query: str) -> None:
        """The query is no longer made."""
        self._failing_since_s.pop(query, None)

    def stale_s(self) -> float:
        """Seconds since the oldest failure that still lasts; 0 when every query is answered."""
        if not self._failing_since_s:
            return 0.0
        return self._clock() - min(self._failing_since_s.values())
