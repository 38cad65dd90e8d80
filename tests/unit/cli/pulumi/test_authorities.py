"""One certificate authority replaces another step by step."""

from __future__ import annotations

import pytest

from slipway.cli.errors import CliError
from slipway.cli.pulumi.authorities import must_follow
from slipway.cli.pulumi.state import StackState
from slipway.plan.platform import PlatformPlan
from tests.unit.plan.samples import dev_plan


def plan(*authorities: int) -> PlatformPlan:
    return dev_plan(security={"authorities": list(authorities)})


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((1,), (1,)),
        ((1,), (1, 2)),
        ((1, 2), (2, 1)),
        ((2, 1), (2,)),
        ((1, 2), (1,)),  # the new one is not wanted after all
        ((), (3,)),  # nothing runs yet
    ],
)
def test_each_step_keeps_what_signs_trusted(before: tuple[int, ...], now: tuple[int, ...]) -> None:
    must_follow(StackState(authorities=before), plan(*now))


@pytest.mark.parametrize(
    ("before", "now", "fix"),
    [
        ((1,), (2,), "[1, 2], then [2, 1], then [2]"),
        ((1,), (2, 1), "[1, 2], then [2, 1], then [2]"),
        ((1, 2), (2,), "[2, 1], then [2]"),
    ],
)
def test_a_step_that_is_left_out_is_refused_with_the_steps_to_take(
    before: tuple[int, ...], now: tuple[int, ...], fix: str
) -> None:
    with pytest.raises(CliError) as refused:
        must_follow(StackState(authorities=before), plan(*now))
    assert fix in (refused.value.fix or "")


def test_without_a_stack_nothing_is_refused() -> None:
    must_follow(None, plan(1))
