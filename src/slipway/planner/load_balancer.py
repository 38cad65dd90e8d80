"""The load balancer in front of the gateway, on AWS. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipway.config.aws import AwsSettings
from slipway.config.aws_cloud import AwsCloudSettings
from slipway.config.document import Origin
from slipway.config.errors import Problem, raise_if_any
from slipway.config.gateway import GatewaySettings
from slipway.inputs import PlanInputs
from slipway.plan.aws import AwsLoadBalancer
from slipway.plan.draft import ModelDraft
from slipway.plan.platform import GatewayPlan

# Of a network load balancer and its target groups (Elastic Load Balancing's user guide, 2026-11).
LONGEST_DRAIN_S = 3600
LEAST_IDLE_S, DEFAULT_IDLE_S, MOST_IDLE_S = 60, 350, 6000
LONGEST_NAME = 32


def plan_load_balancer(
    inputs: PlanInputs, gateway: GatewayPlan, models: Sequence[ModelDraft]
) -> AwsLoadBalancer | None:
    """None where the file asks for none. Raises ConfigError where AWS could not do what the file
    asks for."""
    settings = inputs.environment.settings
    cloud = settings.aws if isinstance(settings, AwsSettings) else None
    if cloud is None or cloud.load_balancer is None:
        return None
    name, wanted = f"slipway-{inputs.environment.name}", cloud.load_balancer
    origin = inputs.environment.origin
    raise_if_any(
        [
            *_name_problems(name, origin),
            *(_public_problems(cloud, settings.gateway, origin) if wanted.public else ()),
            *_stream_problems(models, origin),
        ]
    )
    listener = gateway.clients
    return AwsLoadBalancer(
        name=name,
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


def _name_problems(name: str, origin: Origin) -> Iterator[Problem]:
    if len(name) > LONGEST_NAME:
        yield origin.problem(
            ("aws", "load_balancer"),
            f"would be named {name}, and AWS allows {LONGEST_NAME} characters",
            fix="give the environment a shorter name",
        )


def _stream_problems(models: Sequence[ModelDraft], origin: Origin) -> Iterator[Problem]:
    for each in models:
        longest_s = each.limits.max_stream_duration_s
        if longest_s > LONGEST_DRAIN_S:
            yield origin.problem(
                ("aws", "load_balancer"),
                f"would cut answers of {each.name}, which may take {longest_s} s: AWS lets a"
                f" removed host finish for {LONGEST_DRAIN_S} s at most",
                fix=f"set timeouts.drain_s of the model to {LONGEST_DRAIN_S} or less",
            )


def _public_problems(
    cloud: AwsCloudSettings, gateway: GatewaySettings, origin: Origin
) -> Iterator[Problem]:
    if cloud.egress != "nat":
        yield origin.problem(
            ("aws", "load_balancer", "public"),
            "needs public subnets, which only an environment with a NAT gateway has",
            fix="set slipway:aws.egress to nat, or remove `public`",
        )
    if gateway.certificate is None:
        yield origin.problem(
            ("aws", "load_balancer", "public"),
            "would send prompts and answers over the internet in plain text",
            fix="add `certificate` to slipway:gateway, or remove `public`",
        )
