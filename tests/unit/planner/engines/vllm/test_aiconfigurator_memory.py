"""Memory per GPU against rows recorded from aiconfigurator (bench/aiconfigurator).

Two estimates of the same thing: agreement says that neither has lost a part, not that a GPU was
measured.
"""

from __future__ import annotations

import json

import pytest

from bench.aiconfigurator.memory_compare import RECORD, Comparison, comparisons
from tests.unit.planner.architectures import CATALOG

COMPARISONS = list(comparisons(json.loads(RECORD.read_text(encoding="utf-8")), CATALOG))

# Not held to 5 %, and why:
# aiconfigurator takes all 61 layers of DeepSeek-V3 for mixtures of experts, 3 are dense;
MISCOUNTED = "deepseek-v3"
# it keeps 3.5 GiB of every GPU as a margin, which is 7.5 % of an L40S.
SMALL = "L40S"

MIXTURES = ("qwen3-30b-a3b", "qwen3-235b-a22b")

HELD = [each for each in COMPARISONS if each.model != MISCOUNTED and each.accelerator != SMALL]


def _name(comparison: Comparison) -> str:
    return f"{comparison.model}-{comparison.accelerator}-{comparison.setup}"


def test_enough_is_compared() -> None:
    assert len(HELD) == 124
    assert len({each.model for each in HELD}) == 7


@pytest.mark.parametrize("comparison", HELD, ids=_name)
def test_the_total_is_within_five_percent(comparison: Comparison) -> None:
    assert abs(comparison.error) <= 0.05


@pytest.mark.parametrize(
    "comparison", [each for each in COMPARISONS if each.accelerator == SMALL], ids=_name
)
def test_a_small_device_differs_by_the_margin_only(comparison: Comparison) -> None:
    """vLLM 0.32 keeps the buffers of experts beside the sampler, which theirs does not count."""
    ours, theirs = comparison.ours, comparison.theirs
    allowed = 0.04 if comparison.model in MIXTURES else 0.03
    assert ours["total"] - ours["others"] == pytest.approx(
        theirs["total"] - theirs["others"], rel=allowed
    )


@pytest.mark.parametrize("comparison", COMPARISONS, ids=_name)
def test_the_kv_cache_is_the_same(comparison: Comparison) -> None:
    assert comparison.ours["kvcache"] == pytest.approx(comparison.theirs["kvcache"], rel=0.001)


@pytest.mark.parametrize("comparison", COMPARISONS, ids=_name)
def test_the_weights_are_the_same(comparison: Comparison) -> None:
    """0.05 % on dense models; theirs of a mixture lack one of its two token tables."""
    allowed = 0.07 if comparison.model == MISCOUNTED else 0.0005
    if comparison.model in MIXTURES:
        allowed = 0.021
    assert comparison.ours["weights"] == pytest.approx(comparison.theirs["weights"], rel=allowed)
