"""What differs between releases of vLLM."""

from __future__ import annotations

import pytest

from slipway.planner.engines.vllm.releases import NEWEST, release_of


@pytest.mark.parametrize(
    ("version", "logit_bytes", "counts_graphs"),
    [
        ("0.8.5", 39, False),
        ("0.16.0", 39, False),
        ("0.17.0", 14, False),
        ("0.20.2", 14, False),
        ("0.21.0", 14, True),
        ("1.0.0", 14, True),
    ],
)
def test_a_version_belongs_to_the_last_release_that_changed_something(
    version: str, logit_bytes: int, counts_graphs: bool
) -> None:
    found = release_of(version)
    assert (found.logit_bytes, found.counts_graphs) == (logit_bytes, counts_graphs)


def test_plans_are_for_the_newest_release() -> None:
    assert release_of("0.32.0") == NEWEST
