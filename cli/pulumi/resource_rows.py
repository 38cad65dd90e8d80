"""The rows of Pulumi's output that say how far a resource is (`--color never`, not interactive)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_ROW = re.compile(
    r"^ [-+~=<>*]{1,2} +(?P<type>[\w-]+:[\w/-]+:\w+) (?P<name>\S+)"
    r" (?P<state>[a-z][a-z ]* \(\d[\d.]*s\)|\*\*[a-z ]+\*\*)"
    r"\s*(\[diff: [^]]*\];? ?)?(?P<said>.*)$"
)
_STATE = re.compile(r"[a-z][a-z ]*[a-z]")
_CHANGING = re.compile(r"\w+ing\b")
_TROUBLE = re.compile(r"\b(error|warning):")
# They are changing until all that they consist of has changed.
_COMPONENT = re.compile(r"slipway:index:\w+|pulumi:pulumi:Stack")

Progress = Literal["changing", "changed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """`said` is what the resource's command has printed last."""

    type: str
    name: str
    state: str
    progress: Progress
    said: str

    @property
    def key(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def is_component(self) -> bool:
        return _COMPONENT.fullmatch(self.type) is not None

    @property
    def must_be_read(self) -> bool:
        """Whether it is an error or a warning."""
        return self.progress == "failed" or _TROUBLE.search(self.said) is not None


def resource_row(line: str) -> ResourceRow | None:
    """None for any other line."""
    found = _ROW.match(line)
    state = _STATE.search(found["state"]) if found else None
    if found is None or state is None:
        return None
    return ResourceRow(
        type=found["type"],
        name=found["name"],
        state=state[0],
        progress=_progress(found["state"]),
        said=found["said"].strip(),
    )


def _progress(state: str) -> Progress:
    if state.startswith("*"):
        return "failed"
    return "changing" if _CHANGING.match(state) else "changed"
