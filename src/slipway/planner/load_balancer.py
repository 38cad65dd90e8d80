"""The load balancer in front of the gateway, on AWS. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipway.config.aws import AwsSettings
from slipway.config.errors import Problem, raise_if_any
from slipway.inputs import PlanInputs
from slipway.plan.aws import AwsLoadBalancer
from slipway.plan.draft import ModelDraft
from slipway.plan.platform import GatewayPlan

# Of a network load balancer and its target groups (Elastic Load Balancing's user guide, 2026-11).
LONGEST_DRAIN_S = 3600
LEAST_IDLE_S, DEFAULT_IDLE_S, MOST_IDLE_S = 60, 350, 6000
LONGEST_NAME = 32


def load_balancer_name(environment: str) -> str:
    return f"slipway-{environment}"


def plan_load_balancer(
    inputs: PlanInputs, gateway: GatewayPlan, models: Sequence[ModelDraft]
) -> AwsLoadBalancer | None:
    """None where the file asks for none. Raises ConfigError where AWS could not do what the file
    asks for."""
    settings = inputs.environment.settings
    if not isinstance(settings, AwsSettings) or settings.aws is None:
        return None
    wanted = settings.aws.load_balancer
    if wanted is None:
        return None
    raise_if_any([*_problems(inputs, settings, models)])
    listener = gateway.clients
    return AwsLoadBalancer(
        name=load_balancer_name(inputs.environment.name),
        public=wanted.public,
        clients=wanted.clients,
        port=listener.port,
        health_scheme=listener.scheme,
        targets={envoy.node: envoy.listener.host for envoy in gateway.envoys},
        drain_s=max((each.limits.max_stream_duration_s for each in models), default=0),
        idle_s=_idle_s(models),
    )


def _idle_s(models: Sequence[ModelDraft]) -> int:
    """No shorter than the silence that the gateway allows a stream: Envoy is to end it, who says
    why."""
    longest = max((each.limits.stream_idle_timeout_s for each in models), default=0)
    return min(MOST_IDLE_S, max(DEFAULT_IDLE_S, longest + LEAST_IDLE_S))


def _problems(
    inputs: PlanInputs, settings: AwsSettings, models: Sequence[ModelDraft]
) -> Iterator[Problem]:
    origin = inputs.environment.origin
    name = load_balancer_name(inputs.environment.name)
    if len(name) > LONGEST_NAME:
        yield origin.problem(
            ("aws", "load_balancer"),
            f"would be named {name}, and AWS allows {LONGEST_NAME} characters",
            fix="give the environment a shorter name",
        )
    if settings.aws and settings.aws.load_balancer and settings.aws.load_balancer.public:
        yield from _public_problems(settings, inputs)
    for each in models:
        if each.limits.max_stream_duration_s > LONGEST_DRAIN_S:
            yield origin.problem(
                ("aws", "load_balancer"),
                f"would cut answers of {each.name}, which may take"
                f" {each.limits.max_stream_duration_s} s: AWS lets a removed host finish for"
                f" {LONGEST_DRAIN_S} s at most",
                fix=f"set timeouts.drain_s of the model to {LONGEST_DRAIN_S} or less",
            )


def _public_problems(settings: AwsSettings, inputs: PlanInputs) -> Iterator[Problem]:
    origin = inputs.environment.origin
    if settings.aws and settings.aws.egress != "nat":
        yield origin.problem(
            ("aws", "load_balancer", "public"),
            "needs public subnets, which only an environment with a NAT gateway has",
            fix="set slipway:aws.egress to nat, or remove `public`",
        )
    if settings.gateway.certificate is None:
        yield origin.problem(
            ("aws", "load_balancer", "public"),
            "would send prompts and answers over the internet in plain text",
            fix="add `certificate` to slipway:gateway, or remove `public`",
        )
