from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.diff.json_text import read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_what_was_written_is_read(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert read_json(text) == value


@given(st.text(alphabet='{}[]",:019.e-\\ u\nNInfalstr', max_size=12))
def test_any_text_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert outcome(read_json, text) == outcome(json.loads, text)


def outcome(read: Callable[[str], Any], text: str) -> str:
    try:
        return repr(read(text))
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"a": ["\udfff x"]}', "[" * 500 + "]" * 500])
def test_what_only_the_standard_library_reads_is_read_too(text: str) -> None:
    assert read_json(text) == json.loads(text)
