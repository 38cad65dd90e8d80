from __future__ import annotations

import os

import pytest

from slipway.config.machine import read_machine, usable_memory

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("physical", "limits", "usable"),
    [
        (8 * GIB, [], 8 * GIB),
        (8 * GIB, ["", "max"], 8 * GIB),
        (8 * GIB, ["9223372036854771712"], 8 * GIB),
        (8 * GIB, [str(4 * GIB), ""], 4 * GIB),
        (8 * GIB + 63 * MIB, [], 8 * GIB),
    ],
)
def test_memory_is_the_smallest_of_the_physical_memory_and_the_limits(
    physical: int, limits: list[str], usable: int
) -> None:
    assert usable_memory(physical, limits) == usable


def test_this_machine_reads_the_same_twice() -> None:
    facts = read_machine()
    assert facts == read_machine()
    assert 1 <= facts.cpu_cores <= (os.cpu_count() or 1)
    assert (
        64 * MIB <= facts.memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    )
