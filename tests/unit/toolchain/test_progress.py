from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.progress import amount, share


@given(total=st.integers(10**6, 10**12), part=st.floats(0, 1))
def test_how_much_of_a_download_is_done_can_be_read_from_its_detail(
    total: int, part: float
) -> None:
    found = share(amount(int(total * part), total))
    assert found == pytest.approx(part, abs=2 * 10**6 / total)


@pytest.mark.parametrize("detail", ["", "modules", amount(12_000_000, None), "12 of ? MiB"])
def test_other_details_say_nothing_of_it(detail: str) -> None:
    assert share(detail) is None
