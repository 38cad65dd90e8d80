"""How long Consul has not been answering, per query."""

from __future__ import annotations

from collections.abc import Callable


class Reachability:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failing_since_s: dict[str, float] = {}

    def reached(self, query: str) -> None:
        self._failing_since_s.pop(query, None)

    def failed(self, query: str) -> bool:
        """True for the first of consecutive failures, which is logged."""
        first = query not in self._failing_since_s
        self._failing_since_s.setdefault(query, self._clock())
        return first

    def forget(self, query: str) -> None:
        """Forget a query that is no longer made."""
        self._failing_since_s.pop(query, None)

    def stale_s(self) -> float:
        """Seconds since the start of the oldest ongoing failure; 0 if every query is answered."""
        if not self._failing_since_s:
            return 0.0
        return self._clock() - min(self._failing_since_s.values())
