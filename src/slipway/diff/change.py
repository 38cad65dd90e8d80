"""What a preview says, reduced to what a comment may show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slipway.diff.facts import Facts

Op = Literal["create", "update", "replace", "delete"]
# What applying a change does to what runs. safe: nothing stops; disruptive: something restarts or
# moves; destructive: data, capacity or a model is gone.
Effect = Literal["safe", "disruptive", "destructive"]
EFFECTS: tuple[Effect, ...] = ("safe", "disruptive", "destructive")  # from mild to grave
OPS: tuple[Op, ...] = ("delete", "replace", "update", "create")  # the order people want to read


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """One changed value. Its texts are None where the value is absent or must not be shown."""

    path: str  # "TaskGroups[replica].Count"
    kind: Literal["added", "removed", "changed"] = "changed"
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A resource that changes. Holds no property values but those of the allow-list."""

    op: Op
    urn: str
    type: str
    name: str
    component: str  # the component that owns it, itself included: "model-smollm2"
    effect: Effect
    consequence: str  # what its effect means, in words; "" where nothing has to be said
    paths: tuple[PathChange, ...] = ()
    cause: tuple[str, ...] = ()  # the properties that force a replace
    holds_state: bool = False  # data, or a place where data lives
    accelerator: str = ""  # what it runs on: "H100-80"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A whole preview. `before` and `after` are the facts that the components carry."""

    environment: str
    changes: tuple[Change, ...]
    unchanged: int
    before: Facts
    after: Facts
    compared_with: str  # "the recorded state"
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def count(self, op: Op) -> int:
        return sum(change.op == op for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Of which commit a comment speaks, and when it was made."""

    commit: str = ""
    time: str = ""  # ISO 8601, UTC
    report: str = ""  # where the whole report is, if the comment is too small for it


class PreviewFormatError(ValueError):
    """The document is not what its command prints; the message says what is missing."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource as a preview has it, before it is reduced. None: it does not exist."""

    urn: str
    type: str
    name: str
    parent: str  # URN
    before: dict[str, object] | None = field(repr=False)
    after: dict[str, object] | None = field(repr=False)
