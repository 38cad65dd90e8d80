"""The Pulumi program: load the environment, plan it, build it, export its endpoints."""

from __future__ import annotations

import gc
import signal
from pathlib import Path

import pulumi
from pulumi.runtime.config import get_config_env

from slipway.config.errors import ConfigError, raise_if_any
from slipway.inputs import PlanInputs, load_inputs
from slipway.plan.platform import PlatformPlan
from stacks.awaiting_outputs import await_outputs_together
from stacks.planning import make_plan
from stacks.platform import Platform
from stacks.source_positions import remember_source_positions
from stacks.targets import NoSdkError, is_built, load

CHECKOUT = Path(__file__).parent


def plan_stack() -> tuple[PlanInputs, PlatformPlan]:
    """The plan of the selected stack. Mistakes in its files end the program without a traceback."""
    try:
        inputs = load_inputs(CHECKOUT, pulumi.get_stack(), values=get_config_env())
        # An authority whose time is over can be previewed, but not used.
        raise_if_any(inputs.without_key)
        raise_if_any([] if pulumi.runtime.is_dry_run() else inputs.not_valid)
        # A restore runs this program for the servers alone, so it cannot refuse the certificate of
        # the gateway as `slipway up` does.
        for each in inputs.certificate.not_valid if inputs.certificate else ():
            pulumi.log.warn(str(each))
        return inputs, make_plan(inputs)
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None


# Pulumi's official language host shows what an interrupted program prints: KeyboardInterrupt's
# traceback, which says nothing to the user. By default the signal ends the program silently.
signal.signal(signal.SIGINT, signal.SIG_DFL)
# The graph of resources only grows: collecting garbage took 40 % of the time for 1,000 models.
gc.freeze()
gc.set_threshold(200_000, 50, 100)
await_outputs_together()
remember_source_positions()

inputs, plan = plan_stack()
if not is_built(plan.target, CHECKOUT):
    raise pulumi.RunError(f'target "{plan.target}" can be planned, but not built yet')
try:
    target = load(plan.target, CHECKOUT)
except NoSdkError as error:
    raise pulumi.RunError(str(error)) from None
platform = Platform("platform", plan, target, inputs.own_authorities)
pulumi.export("gateway", platform.gateway)
pulumi.export("models", sorted(model.name for model in plan.models))
