"""The parts of a page that live updates replace: whole sections, or only rows of them."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from cli.ui.page import Page, Row, Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`row` is None where the whole section is replaced."""

    section: Section
    row: Row | None = None

    @property
    def id(self) -> str:
        return self.section.id if self.row is None else self.row.id


def changes(before: Page | None, after: Page) -> Iterator[Change]:
    """What makes `before` the page `after`, the headline aside: rows where a section has the same
    ones in the same order, else the section. All of it where nothing is known of before."""
    known = {section.id: section for section in before.sections} if before is not None else {}
    for section in after.sections:
        old = known.get(section.id)
        if old == section:
            continue
        if old is None or _frame(old) != _frame(section):
            yield Change(section=section)
            continue
        for was, row in zip(old.rows, section.rows, strict=True):
            if was != row:
                yield Change(section=section, row=row)


def _frame(section: Section) -> tuple[Section, list[str]]:
    return dataclasses.replace(section, rows=()), [row.id for row in section.rows]


def digest(part: object) -> str:
    """Differs between parts that differ (in one of four billion cases it does not, until the next
    change)."""
    return f"{zlib.crc32(repr(part).encode()):08x}"
