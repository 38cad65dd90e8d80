"""What the front page shows, as words: templates only place them.

A section has rows, and each row an id that stays the same while its thing exists. A row that did
not change is equal to what it was, which is how the page is kept up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """How a value is coloured. Each is said in words, too."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"

    @property
    def urgency(self) -> int:
        """What wants attention comes first."""
        return [Tone.BAD, Tone.WARN, Tone.QUIET, Tone.OK].index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    word: str
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measured figure beside its goal; `goal` is "" where there is none."""

    text: str
    goal: str = ""
    tone: Tone = Tone.QUIET


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """`ready` and `routed` are those of `slipway status`."""

    id: str
    name: str
    aliases: str
    state: State
    ready: bool
    routed: bool
    running: int  # replicas
    replicas: str  # "2 of 3"
    bounds: str  # "1 to 4"
    why: str
    in_flight: int | None
    requests_per_s: str
    tokens_per_s: str
    ttft: Measure
    tpot: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    id: str
    name: str
    job: str
    node: str
    allocation: str
    state: State
    restarts: int
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    id: str
    name: str
    pool: str
    address: str
    state: State
    takes_work: bool
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    id: str
    name: str
    state: State
    running: int
    waiting: int
    changed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    id: str
    cluster: str
    address: str
    state: State
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    id: str
    service: str
    address: str
    state: State
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that wants attention, and what mends it ("" where the text says it)."""

    id: str
    text: str
    fix: str
    tone: Tone


Row = ModelRow | ReplicaRow | NodeRow | JobRow | EndpointRow | TargetRow | Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """`summary` is said beside the title; `empty` where there are no rows."""

    id: str
    title: str
    summary: str
    empty: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    environment: str
    state: State
    gateway: str
    server_name: str  # in the gateway's certificate; "" where it speaks plain HTTP
    last_change: str
    facts: tuple[tuple[str, str], ...]  # figure, what it counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    headline: Headline
    sections: tuple[Section, ...]
    askable: tuple[str, ...]  # models that chat can ask
    filter: str

    def section(self, section_id: str) -> Section:
        return next(each for each in self.sections if each.id == section_id)
