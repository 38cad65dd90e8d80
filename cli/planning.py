"""Plans of environments, and what is said of the gateway's certificate."""

from __future__ import annotations

from cli.console import say
from cli.environment import Environment
from slipway.config.errors import ConfigError, raise_if_any
from slipway.inputs import PlanInputs, load_inputs, load_inputs_without_certificate
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan


def must_be_valid_now(inputs: PlanInputs) -> None:
    """ConfigError if clients would refuse the gateway's certificate now. Only commands that deploy
    the certificate require it to be valid now."""
    raise_if_any(inputs.certificate.not_valid if inputs.certificate else ())


def warn_of_certificate(inputs: PlanInputs) -> None:
    """Says that the gateway's certificate expires soon or is not valid now, if so."""
    for warning in inputs.certificate.warnings if inputs.certificate else ():
        say(warning, style="yellow")


def plan_of(environment: Environment) -> PlatformPlan:
    """The plan of an environment's files, for commands that do not apply it: the gateway's
    certificate is not read. Raises ConfigError."""
    return make_plan(load_inputs_without_certificate(environment.checkout, environment.name))


def plan_if_valid(environment: Environment) -> PlatformPlan | None:
    """Like `plan_of`; None where the files are wrong, for commands that must work nevertheless."""
    try:
        return plan_of(environment)
    except ConfigError:
        return None


def plan_for_clients(environment: Environment) -> PlatformPlan:
    """Like `plan_of`, for commands that ask the gateway: its certificate, if usable, says how to
    verify the gateway. Raises ConfigError for other mistakes in the files."""
    try:
        return make_plan(load_inputs(environment.checkout, environment.name))
    except ConfigError:
        return plan_of(environment)
