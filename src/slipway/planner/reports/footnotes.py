"""Sources that several lines share, told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from .explain import Line

_BETWEEN = "; "  # the parts of a source


def with_footnotes(lines: Iterable[Line]) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """(the lines, footnotes): a part of a source that is found in more than one line becomes a
    footnote, and "[1]" in its place refers to the first of them."""
    told = [(line, line.source.split(_BETWEEN)) for line in lines]
    times = Counter(part for _, parts in told for part in dict.fromkeys(parts))
    numbers: dict[str, int] = {}
    for part, count in times.items():
        if count > 1:
            numbers[part] = len(numbers) + 1
    return (
        tuple(replace(line, source=_referring(parts, numbers)) for line, parts in told),
        tuple(numbers),
    )


def _referring(parts: Iterable[str], numbers: dict[str, int]) -> str:
    own = _BETWEEN.join(part for part in parts if part not in numbers)
    references = [f"[{numbers[part]}]" for part in parts if part in numbers]
    return " ".join([own, *references]).strip()
