"""One certificate authority replaces another step by step."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from cli.errors import CliError
from cli.pulumi.authorities import must_follow, must_sign_now
from cli.pulumi.state import StackState
from slipway.config.errors import ConfigError, Problem
from slipway.plan.platform import OwnAuthorityPlan, PlatformPlan, SecurityPlan

NOW = datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC)


def own(name: str, days: int = 3650) -> OwnAuthorityPlan:
    """One that a user brings, with so many days left."""
    return OwnAuthorityPlan(
        fingerprint=name * 64,
        subject=f"CN={name}",
        ends=(NOW + datetime.timedelta(days=days)).isoformat(),
        leaf_valid_days=365,
    )


A, B = own("a"), own("b")
ID_A, ID_B = A.fingerprint, B.fingerprint


def plan(*authorities: int | OwnAuthorityPlan) -> PlatformPlan:
    security = SecurityPlan(authorities=authorities, gossip_key=1)
    made: Any = SimpleNamespace(environment="dev", security=security)
    return made  # type: ignore[no-any-return]


def follow(before: tuple[int | str, ...], *now: int | OwnAuthorityPlan) -> None:
    must_follow(StackState(authorities=before), plan(*now), NOW)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((1,), (1,)),
        ((1,), (1, 2)),
        ((1, 2), (2, 1)),
        ((2, 1), (2,)),
        ((1, 2), (1,)),  # the new one is not wanted after all
        ((), (3,)),  # nothing runs yet
        ((1,), (1, A)),
        ((1, ID_A), (A, 1)),
        ((ID_A, 1), (A,)),
        ((ID_A,), (A, B)),
        ((ID_A, ID_B), (B, A)),
        ((ID_B, ID_A), (B,)),
        ((ID_A,), (A, 1)),
    ],
)
def test_each_step_keeps_what_signs_trusted(before: Any, now: Any) -> None:
    follow(before, *now)


@pytest.mark.parametrize(
    ("before", "now", "fix"),
    [
        ((1,), (2,), "[1, 2], then [2, 1], then [2]"),
        ((1,), (2, 1), "[1, 2], then [2, 1], then [2]"),
        ((1, 2), (2,), "[2, 1], then [2]"),
        ((1,), (A,), "[1, {cert: …} (CN=a)], then [{cert: …} (CN=a), 1], then [{cert: …} (CN=a)]"),
        ((1, ID_A), (A,), "[{cert: …} (CN=a), 1], then [{cert: …} (CN=a)]"),
        # Its file has been overwritten: the plan no longer knows who it was.
        ((ID_A,), (B,), "[{cert: …} (SHA-256 aaaaaaaaaaaa…), {cert: …} (CN=b)], then"),
    ],
)
def test_a_step_that_is_left_out_is_refused_with_the_steps_to_take(
    before: Any, now: Any, fix: str
) -> None:
    with pytest.raises(CliError) as refused:
        follow(before, *now)
    assert fix in (refused.value.fix or "")


def test_without_a_stack_nothing_is_refused() -> None:
    must_follow(None, plan(1))


# How long one has to live


@pytest.mark.parametrize("before", [(), (1,)])
def test_one_that_ends_before_what_it_would_sign_does_not_come_in(before: Any) -> None:
    with pytest.raises(CliError) as refused:
        follow(before, *(() if before == () else (1,)), own("c", days=119))
    assert "CN=c ends in 119 days" in refused.value.message
    assert "120 days or more" in (refused.value.fix or "")


def test_one_that_signs_already_may_come_to_its_end_and_be_replaced() -> None:
    old = own("a", days=30)
    follow((ID_A,), old)
    follow((ID_A,), old, B)


def test_up_is_refused_while_the_one_that_signs_cannot() -> None:
    expired = Problem(source="Pulumi.dev.yaml", key="k", message="has expired", fix="replace it")
    for without_key, not_valid in (([expired], []), ([], [expired])):
        inputs: Any = SimpleNamespace(without_key=without_key, not_valid=not_valid)
        with pytest.raises(ConfigError) as refused:
            must_sign_now(inputs)
        assert refused.value.problems == (expired,)
