"""Fits sections into a comment's size without cutting any in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# GitHub refuses a comment above 65,536 characters. Counted in bytes, which is never less than the
# number of characters; the rest is room for what a bot may add.
COMMENT_BYTES = 65_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a comment, in full and in a short form for when there is little room."""

    full: str
    short: str = ""  # "" if there is no short form


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    text: str
    shortened: int
    left_out: int


def fit(sections: Sequence[Section], room_bytes: int) -> Fitted:
    """Fits sections in order. One that does not fit is shortened or else left out, and the next
    ones are still tried. No section is cut, so fences and folds stay balanced."""
    texts, shortened, left_out = [], 0, 0
    for section in sections:
        chosen = next(
            (text for text in (section.full, section.short) if text and size(text) <= room_bytes),
            None,
        )
        if chosen is None:
            left_out += 1
            continue
        shortened += chosen != section.full
        texts.append(chosen)
        room_bytes -= size(chosen)
    return Fitted(text="".join(texts), shortened=shortened, left_out=left_out)


def size(text: str) -> int:
    return len(text.encode())
