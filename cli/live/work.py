"""What a command is doing at a moment. All times are those of one monotonic clock, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a command that began at `command_s`."""

    name: str
    about: str
    command_s: float
    since_s: float
    key: str  # of its duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A tool, an environment, weights or a resource, in its `state` since `since_s`."""

    name: str
    state: str
    since_s: float
    detail: str = ""

    @property
    def key(self) -> str:
        """Of the duration of this state: a tool that is built takes longer than one that is
        downloaded."""
        return f"{self.name} {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Something waited for, which `what` says."""

    what: Callable[[], str]
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """`tools` and `operations` have not ended. All tools of a phase are known when it begins;
    operations are resources that Pulumi changes, which come one after the other."""

    phase: Phase | None = None
    tools: tuple[Piece, ...] = ()
    tools_ready: int = 0
    operations: tuple[Piece, ...] = ()
    changes: int = 0
    waits: tuple[Wait, ...] = ()


# States of a tool that is built: builds run one after the other (toolchain/prepare.py).
BUILDING, QUEUED = "building", "queued"

Expected = Callable[[str], float | None]
"""How long what has this key takes, in seconds; None if that is not known."""


def remaining_s(work: Work, now_s: float, expected: Expected) -> float | None:
    """How long the tools still take: all builds, or the longest of what runs beside them. None if
    nothing is known, or if what is known should have ended already."""
    builds_s, longest_s = 0.0, 0.0
    for tool in work.tools:
        left_s = _left_s(tool, now_s, expected)
        if tool.state in (BUILDING, QUEUED):
            builds_s += left_s
        else:
            longest_s = max(longest_s, left_s)
    return max(builds_s, longest_s) or None


def _left_s(tool: Piece, now_s: float, expected: Expected) -> float:
    if tool.state == QUEUED:
        return expected(f"{tool.name} {BUILDING}") or 0.0
    known_s = expected(tool.key)
    return max(0.0, known_s - (now_s - tool.since_s)) if known_s is not None else 0.0
