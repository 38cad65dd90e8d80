from __future__ import annotations

import pytest

from slipway.planner.reports.price_date import dated


@pytest.mark.parametrize(
    ("age_days", "told"),
    [
        (None, "2026-07-20"),
        (0, "2026-07-20, 0 days old"),
        (1, "2026-07-20, 1 day old"),
        (129, "2026-07-20, 129 days old"),
    ],
)
def test_a_price_has_its_date_and_its_age_where_that_is_known(
    age_days: int | None, told: str
) -> None:
    assert dated("2026-07-20", age_days) == told


def test_without_a_price_there_is_no_date() -> None:
    assert dated("", None) == ""
