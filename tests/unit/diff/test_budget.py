from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipway.diff.budget import Section, fit, size

SECTIONS = st.lists(
    st.builds(Section, full=st.text(min_size=1, max_size=30), short=st.text(max_size=10)),
    max_size=12,
)


@given(SECTIONS, st.integers(0, 400))
def test_what_fits_is_never_more_than_the_room(sections: list[Section], room: int) -> None:
    fitted = fit(sections, room)
    assert size(fitted.text) <= room
    assert fitted.left_out + fitted.shortened <= len(sections)


@given(SECTIONS)
def test_with_room_nothing_is_shortened(sections: list[Section]) -> None:
    fitted = fit(sections, 1 << 20)
    assert fitted.text == "".join(section.full for section in sections)
    assert (fitted.shortened, fitted.left_out) == (0, 0)


def test_a_section_that_is_too_large_leaves_room_for_those_after_it() -> None:
    fitted = fit([Section(full="a" * 90, short="a"), Section(full="b" * 90), Section(full="c")], 10)
    assert (fitted.text, fitted.shortened, fitted.left_out) == ("ac", 1, 1)
