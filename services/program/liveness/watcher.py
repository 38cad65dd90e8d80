"""Looks at the parts of a replica again and again, and judges whether it moves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from program.liveness.clock import LOOK_S, OwnClock
from program.liveness.progress import Seen
from program.liveness.stillness import Stillness


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something whose steps can be counted. Beyond `limit_s` it does not move; beyond `stall_s` it
    is killed."""

    name: str
    seen: Callable[[], Seen]
    limit_s: float
    stall_s: float
    stillness: Stillness = field(default_factory=Stillness)

    @property
    def has_stalled(self) -> bool:
        return self.stillness.still_for_s >= self.stall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the page shows: of the part that stands still, else of the first one."""

    moving: bool
    part: str = ""
    outstanding: int = 0
    still_for_s: float = 0.0
    limit_s: float = 0.0
    stall_s: float = 0.0

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


class Watcher:
    """`verdict` is that of the last look."""

    def __init__(self, parts: Sequence[Part], clock: OwnClock) -> None:
        self._parts = parts
        self._clock = clock
        self.verdict = Verdict(moving=True)

    def look(self) -> Part | None:
        """A part that has stalled, if there is one."""
        seen = [(part, part.seen()) for part in self._parts]
        suspected = any(part.stillness.is_suspect(now) for part, now in seen)
        counted_s = self._clock.since_last_look_s(exactly=suspected)
        for part, now in seen:
            part.stillness.look(now, counted_s)
        self.verdict = _judged(seen)
        return next((part for part in self._parts if part.has_stalled), None)

    def run(self, ended: threading.Event, on_stall: Callable[[Part], None]) -> None:
        """Looks until `ended` is set, or once a part has stalled."""
        while not ended.wait(LOOK_S):
            if (stalled := self.look()) is not None:
                on_stall(stalled)
                return


def _judged(seen: Sequence[tuple[Part, Seen]]) -> Verdict:
    still = (each for each in seen if each[1].outstanding and _is_still(each[0]))
    part, now = next(still, seen[0])
    return Verdict(
        moving=not (now.outstanding and _is_still(part)),
        part=part.name,
        outstanding=now.outstanding,
        still_for_s=round(part.stillness.still_for_s, 3),
        limit_s=part.limit_s,
        stall_s=part.stall_s,
    )


def _is_still(part: Part) -> bool:
    return part.stillness.still_for_s >= part.limit_s
