"""One requirement on a host, met or not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """`found` is what the host has. `wrong` says what is wrong, and `fix` what to do; both are
    empty if it is met."""

    name: str
    found: str
    wrong: str = ""
    fix: str = ""
