"""Where the members of a job are, as Nomad writes it from Consul into a file of the task.

The file is a template that Nomad renders again whenever a member registers or leaves, so a member
needs no token and asks nobody: one JSON object on each line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from program.group.place import Place, index_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A registered member: where it listens for the others, on the control network."""

    index: int
    allocation: str
    address: str
    port: int


def read_members(file: Path) -> list[Member]:
    """Those that are registered now; none while the file is being written."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [_member(line) for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def leaders(members: list[Member], place: Place) -> list[Member]:
    """Rank 0 of the place's group. There may be two for a moment: one that has died without a word
    stays registered until Nomad notices, beside the one that replaces it."""
    return [each for each in members if each.index == place.group * place.size]


def _member(line: str) -> Member:
    content = json.loads(line)
    return Member(
        index=index_of(content["replica"]),
        allocation=str(content["allocation"]),
        address=str(content["address"]),
        port=int(content["port"]),
    )
