"""A preview, reduced to what a comment may show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slipway.diff.facts import Facts

Op = Literal["create", "update", "replace", "delete"]
# The effect of a change on the running platform. safe: nothing stops; disruptive: something
# restarts or moves; destructive: data, capacity or a model is lost.
Effect = Literal["safe", "disruptive", "destructive"]
EFFECTS: tuple[Effect, ...] = ("safe", "disruptive", "destructive")  # from mild to severe
OPS: tuple[Op, ...] = ("delete", "replace", "update", "create")  # in display order


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """One changed value. `before` and `after` are None where it is absent or must not be shown."""

    path: str  # "TaskGroups[replica].Count"
    kind: Literal["added", "removed", "changed"] = "changed"
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A resource that changes. The only property values it holds are on the allow-list."""

    op: Op
    urn: str
    type: str
    name: str
    component: str  # the component that owns it, itself included: "model-smollm2"
    effect: Effect
    consequence: str  # the effect in words; "" where there is nothing to say
    paths: tuple[PathChange, ...] = ()
    cause: tuple[str, ...] = ()  # the properties that force a replace
    holds_state: bool = False  # it holds data, or is where data is kept
    accelerator: str = ""  # the one it runs on: "H100-80"


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
    """The commit a comment is about, and when it was made."""

    commit: str = ""
    time: str = ""  # ISO 8601, UTC
    report: str = ""  # where the full report is, if the comment is too small for it


class PreviewFormatError(ValueError):
    """The document is not its command's output; the message says what is missing."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of a preview, before it is reduced. None: it does not exist."""

    urn: str
    type: str
    name: str
    parent: str  # URN
    before: dict[str, object] | None = field(repr=False)
    after: dict[str, object] | None = field(repr=False)
