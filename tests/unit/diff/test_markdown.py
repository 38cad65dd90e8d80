from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.diff.markdown import code, details, fence, html_code, one_line, plain, prose, table
from tests.unit.diff.reading import assert_balanced, visible

HOSTILE = st.text(
    alphabet=st.sampled_from(list("`~<>/|@#_*[]()!&\\-: \n\x1b[31md\u202e") + list("abdetils")),
    max_size=60,
)


@given(HOSTILE)
def test_a_code_span_shows_everything_and_opens_nothing(text: str) -> None:
    span = code(text)
    assert "\n" not in span
    assert "|" not in span
    assert visible(span) == ""
    assert one_line(text).replace("|", "¦") in span


@given(st.lists(HOSTILE, max_size=5))
def test_a_fence_holds_whatever_is_in_it(lines: list[str]) -> None:
    block = fence(lines, "diff")
    assert_balanced(f"before\n{block}\nafter")
    assert visible(f"before\n{block}\nafter") == "before\nafter"


@given(HOSTILE)
def test_prose_has_no_markup_and_no_mention(text: str) -> None:
    words = prose(text)
    assert "<" not in words
    assert "\n" not in words
    assert not re.search(r"@\w", words)
    assert not re.search(r"(?<!\\)(\\\\)*[`*_|\[\]]", words)
    assert "://" not in words


@given(HOSTILE, HOSTILE)
def test_a_fold_is_one_fold_whatever_its_title_says(title: str, body: str) -> None:
    assert_balanced(details(html_code(title), fence([body])))


@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=4))
def test_a_table_has_as_many_cells_as_columns(rows: list[tuple[str, str]]) -> None:
    lines = table(("a", "b"), [(code(left), prose(right)) for left, right in rows]).splitlines()
    assert len(lines) == len(rows) + 2
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("a\x00\x08b", "ab"),
        ("\u202eabc\u200b", "abc"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("ünïcode 日本", "ünïcode 日本"),
    ],
)
def test_control_sequences_are_removed_and_letters_kept(given: str, shown: str) -> None:
    assert plain(given) == shown


def test_no_single_text_uses_up_a_comment() -> None:
    long = "`x" * 100_000
    assert max(map(len, (code(long), prose(long), fence([long]), html_code(long)))) < 3_000
