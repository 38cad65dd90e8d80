from __future__ import annotations

import pytest

from slipway.plan.digest import canonical_json, digest
from slipway.plan.platform import LatencyGoal


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest({"a": 1, "b": [2]}, length=12) == digest({"b": [2], "a": 1}, length=12)


def test_the_order_of_items_matters() -> None:
    assert digest([1, 2], length=12) != digest([2, 1], length=12)


def test_a_dataclass_counts_as_its_fields() -> None:
    goal = LatencyGoal(ttft_p95_ms=1, tpot_p95_ms=None)
    assert canonical_json({"goal": goal}) == '{"goal":{"tpot_p95_ms":null,"ttft_p95_ms":1}}'


def test_a_digest_is_a_prefix_of_the_longer_one() -> None:
    assert digest("x", length=64).startswith(digest("x", length=6))


def test_values_that_json_cannot_represent_are_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        digest({1}, length=6)
