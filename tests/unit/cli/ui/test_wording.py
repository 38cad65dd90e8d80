from __future__ import annotations

import pytest

from cli.ui.wording import ago, bounds, figure, milliseconds


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.024, "0.02"), (5.486, "5.49"), (42.25, "42.2"), (1234.5, "1,234")],
)
def test_a_figure_has_as_many_digits_as_a_rate_is_good_for(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (39.4, "39 ms"), (1500, "1,500 ms"), (12_000, "12.0 s")]
)
def test_a_latency_is_in_milliseconds_until_it_is_long(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "less than a minute ago"),
        (59, "less than a minute ago"),
        (60, "1 min ago"),
        (3600, "1 h ago"),
        (90_000, "25 h ago"),
        (200_000, "2 days ago"),
    ],
)
def test_a_time_is_told_coarsely(seconds: float, text: str) -> None:
    assert ago(1_000_000 - seconds, 1_000_000) == text


def test_bounds_that_are_the_same_are_one_number() -> None:
    assert (bounds(2, 2), bounds(1, 4)) == ("2", "1 to 4")
