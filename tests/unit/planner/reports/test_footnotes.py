from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from slipway.planner.reports.explain import Line
from slipway.planner.reports.footnotes import with_footnotes


def line(source: str) -> Line:
    return Line(quantity="a", arithmetic="", result="1", source=source)


def test_a_shared_part_becomes_a_footnote_and_a_line_keeps_its_own() -> None:
    lines, notes = with_footnotes([line("a; shared"), line("b"), line("shared"), line("c; shared")])
    assert [each.source for each in lines] == ["a [1]", "b", "[1]", "c [1]"]
    assert notes == ("shared",)


parts = st.lists(
    st.sampled_from(["roofline", "held out", "a test", "once"]), min_size=1, unique=True
)


@given(st.lists(parts))
def test_every_part_is_told_once_and_found_again(sources: list[list[str]]) -> None:
    lines, notes = with_footnotes([line("; ".join(source)) for source in sources])
    told = [part for each in lines for part in own(each.source)] + list(notes)
    assert sorted(told) == sorted({part for source in sources for part in source})
    for each, source in zip(lines, sources, strict=True):
        referred = [notes[int(number) - 1] for number in re.findall(r"\[(\d+)\]", each.source)]
        assert {*own(each.source), *referred} == set(source)


def own(source: str) -> list[str]:
    text = re.sub(r"\[\d+\]", "", source).strip()
    return text.split("; ") if text else []
