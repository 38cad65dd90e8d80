"""The Pulumi program: load the environment, plan it, build it, export where it answers."""

from __future__ import annotations

import gc
from pathlib import Path

import pulumi
from pulumi.runtime.config import get_config_env

from slipway.config.errors import ConfigError
from slipway.config.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from slipway.planner.platform import make_plan
from stacks.platform import Platform
from stacks.targets import TARGETS


def plan_stack() -> PlatformPlan:
    """The plan of the selected stack. A mistake in its files ends the program without a trace."""
    root = Path(__file__).parent
    try:
        return make_plan(load_inputs(root, pulumi.get_stack(), values=get_config_env()))
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None


# The graph of resources only grows until the end. Looking through all of it again and again for
# garbage took 40 % of the time of a thousand models (bench/preview_scale.py).
gc.freeze()
gc.set_threshold(200_000, 50, 100)

plan = plan_stack()
platform = Platform("platform", plan, TARGETS[plan.target])
pulumi.export("gateway", {"http": platform.gateway_http, "grpc": platform.gateway_grpc})
pulumi.export("models", sorted(model.name for model in plan.models))
