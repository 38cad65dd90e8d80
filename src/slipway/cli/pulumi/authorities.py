"""The order in which one certificate authority replaces another."""

from __future__ import annotations

from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.cli.pulumi.state import StackState
from slipway.plan.platform import PlatformPlan


def must_follow(state: StackState | None, plan: PlatformPlan) -> None:
    """CliError if an authority would sign that not everybody trusts yet, or if one that has signed
    would no longer be trusted: agents would refuse each other."""
    before, now = state.authorities if state else (), plan.security.authorities
    if not before or (now[0] in before and before[0] in now):
        return
    old, new = before[0], next((each for each in now if each not in before), now[0])
    steps = [[old, new], [new, old], [new]]
    todo = [step for step in steps if tuple(step) != before]
    raise CliError(
        f"Pulumi.{plan.environment}.yaml: slipway:security.authorities cannot change from"
        f" {list(before)} to {list(now)} in one step: agents would refuse each other's"
        " certificates meanwhile",
        fix=f"set it to {', then '.join(map(str, todo))}, each with slipway up -s"
        f" {plan.environment}",
        exit_code=WRONG_INPUT,
    )
