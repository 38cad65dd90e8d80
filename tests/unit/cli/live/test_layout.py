from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cli.live.layout import ENDS, INDENT, NARROW, Size, lines
from cli.live.rows import Heading, Row

WORDS = st.text("abc …ü", max_size=60)
ROWS = st.lists(
    st.builds(
        Row,
        name=WORDS,
        state=st.sampled_from(["", "queued", "downloading", "creating replacement"]),
        share=st.none() | st.floats(0, 1),
        figures=st.sampled_from(["0:00", "12:34 of ~56:07", "123 of 4567 MB"]),
        detail=WORDS,
    ),
    max_size=40,
)
HEAD = Heading(clock="  0:42", name="tools", about="in parallel", figures=("0:42", "~9:00 left"))


@given(rows=ROWS, columns=st.integers(10, 200), height=st.integers(3, 60))
def test_the_block_leaves_a_line_and_says_how_much_it_leaves_out(
    rows: list[Row], columns: int, height: int
) -> None:
    drawn = [
        "".join(span.text for span in line)
        for line in lines(HEAD, rows, Size(columns=columns, lines=height), ENDS)
    ]
    assert len(drawn) <= height - 1
    assert drawn[0].startswith("  0:42  tools")
    assert "~9:00 left" in drawn[0]
    hidden = len(rows) - (len(drawn) - 1)
    if hidden:
        assert drawn[-1].strip() == f"and {hidden + 1} more"
    of_tools = [line for line, row in zip(drawn[1:], rows, strict=False) if row.state]
    if columns >= NARROW + INDENT and not hidden:
        assert all(len(line) <= columns for line in of_tools)


def drawn(columns: int, *rows: Row) -> list[str]:
    found = lines(HEAD, list(rows), Size(columns=columns, lines=20), ENDS)
    return ["".join(span.text for span in line).rstrip() for line in found]


def test_a_narrow_terminal_gets_names_states_and_figures() -> None:
    row = Row(name="nomad-autoscaler", state="downloading", share=0.5, figures="12 of 24 MB")
    assert drawn(40, row) == [
        "  0:42  tools (0:42, ~9:00 left)",
        "  nomad-autoscaler download… 12 of 24 MB",
    ]


def test_a_bar_is_as_long_as_what_is_done() -> None:
    rows = [Row(name="n", state="s", share=share, figures="f") for share in (0.0, 0.5, 1.0)]
    bars = [line.rpartition("  ")[2] for line in drawn(100, *rows)[1:]]
    assert bars == ["─" * 24, "━" * 12 + "─" * 12, "━" * 24]
