"""The order in which one certificate authority replaces another."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection

from cli.errors import WRONG_INPUT, CliError
from cli.pulumi.state import StackState
from slipway.config.errors import raise_if_any
from slipway.inputs import PlanInputs
from slipway.plan.platform import OwnAuthorityPlan, PlatformPlan

LEAST_DAYS = 120  # of a new authority: `up` renews what it signs that long before the end
Authority = int | str  # a generation, or the fingerprint of one that the user brings


def must_sign_now(inputs: PlanInputs) -> None:
    """ConfigError if the authority that signs has no key, or its time is not now. A preview needs
    the key only, and `down` needs neither."""
    raise_if_any([*inputs.without_key, *inputs.not_valid])


def must_follow(
    state: StackState | None, plan: PlatformPlan, now: datetime.datetime | None = None
) -> None:
    """CliError if agents would refuse each other, because an authority would sign that not
    everybody trusts yet, or one that has signed would no longer be trusted. CliError also if a new
    authority ends too soon."""
    before, listed = state.authorities if state else (), plan.security.authority_ids
    _must_live(plan, before, now or datetime.datetime.now(datetime.UTC))
    if not before or (listed[0] in before and before[0] in listed):
        return
    old = before[0]
    new = next((each for each in listed if each not in before), listed[0])
    written = _as_written(plan)
    steps = [[old, new], [new, old], [new]]
    todo = [f"[{', '.join(map(written, step))}]" for step in steps if tuple(step) != before]
    raise CliError(
        f"Pulumi.{plan.environment}.yaml: slipway:security.authorities cannot change from"
        f" [{', '.join(map(written, before))}] to [{', '.join(map(written, listed))}] in one"
        " step: agents would refuse each other's certificates meanwhile",
        fix=f"set it to {', then '.join(todo)}, each with slipway up -s {plan.environment}",
        exit_code=WRONG_INPUT,
    )


def _must_live(plan: PlatformPlan, before: Collection[Authority], now: datetime.datetime) -> None:
    for each in plan.security.authorities:
        if isinstance(each, int) or each.fingerprint in before:
            continue
        days = (datetime.datetime.fromisoformat(each.ends) - now).days
        if days < LEAST_DAYS:
            raise CliError(
                f"Pulumi.{plan.environment}.yaml: slipway:security.authorities: {each.subject} ends"
                f" in {days} days, before the certificates that it would sign",
                fix=f"use an authority that is valid for {LEAST_DAYS} days or more",
                exit_code=WRONG_INPUT,
            )


def _as_written(plan: PlatformPlan) -> Callable[[Authority], str]:
    """The authority's name in messages; for one of the user's the subject, if the files still have
    it."""
    own = [each for each in plan.security.authorities if isinstance(each, OwnAuthorityPlan)]
    subjects = {each.fingerprint: f"{{cert: …}} ({each.subject})" for each in own}
    return lambda each: (
        str(each)
        if isinstance(each, int)
        else subjects.get(each, f"{{cert: …}} (SHA-256 {each[:12]}…)")
    )
