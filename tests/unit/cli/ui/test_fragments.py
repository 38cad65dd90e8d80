from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cli.ui.fragments import Change, changes, digest
from cli.ui.front import front_page
from cli.ui.page import Notice, Page, Section, Tone
from tests.unit.cli.ui.observations import observation

EMPTY = front_page(observation(), "")


def page(sections: Sequence[Sequence[tuple[str, str]]]) -> Page:
    return dataclasses.replace(
        EMPTY,
        sections=tuple(
            Section(
                id=f"s{number}",
                title="",
                summary="",
                empty="",
                rows=tuple(Notice(id=i, text=t, fix="", tone=Tone.OK) for i, t in rows),
            )
            for number, rows in enumerate(sections)
        ),
    )


def applied_to(before: Page, made: Sequence[Change]) -> Page:
    """What the browser does with the changes."""
    sections = {section.id: section for section in before.sections}
    for change in made:
        section = sections.get(change.section.id)
        if change.row is None or section is None:
            sections[change.section.id] = change.section
            continue
        rows = tuple(change.row if row.id == change.row.id else row for row in section.rows)
        sections[section.id] = dataclasses.replace(section, rows=rows)
    return dataclasses.replace(before, sections=tuple(sections.values()))


rows = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), unique_by=lambda row: row[0]
)
pages = st.tuples(rows, rows).map(page)


@given(pages, pages)
def test_the_changes_make_the_old_page_the_new_one(before: Page, after: Page) -> None:
    assert applied_to(before, list(changes(before, after))) == after


@given(pages)
def test_nothing_changes_between_equal_pages(same: Page) -> None:
    assert list(changes(same, same)) == []


def test_only_the_row_that_changed_is_sent() -> None:
    before, after = page([[("a", "x"), ("b", "x")]]), page([[("a", "x"), ("b", "y")]])
    assert [change.id for change in changes(before, after)] == ["b"]


def test_a_section_with_other_rows_or_another_order_is_sent_whole() -> None:
    before = page([[("a", "x"), ("b", "x")]])
    for after in (page([[("a", "x")]]), page([[("b", "x"), ("a", "x")]])):
        (change,) = changes(before, after)
        assert (change.id, change.row) == ("s0", None)


def test_everything_is_sent_to_a_page_of_which_nothing_is_known() -> None:
    assert [change.id for change in changes(None, page([[("a", "x")], []]))] == ["s0", "s1"]


def test_parts_that_differ_have_different_digests() -> None:
    first, second = page([[("a", "x")]]).sections[0], page([[("a", "y")]]).sections[0]
    assert digest(first) != digest(second)
    assert digest(first) == digest(dataclasses.replace(first))
