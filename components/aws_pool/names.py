"""The names of what a pool has in AWS: known at preview, so that policies can name them. Pure."""

from __future__ import annotations

from slipway.plan.aws import AwsPlan


def object_prefix(environment: str) -> str:
    """Of everything that an environment has in its bucket."""
    return environment


def running_key(environment: str, pool: str) -> str:
    """Of the object that lists what jobs in the pool run."""
    return f"{object_prefix(environment)}/pools/{pool}-running.json"


def secret_name(environment: str, pool: str) -> str:
    return f"slipway/{environment}/pools/{pool}"


def role_name(environment: str, pool: str) -> str:
    return f"slipway-{environment}-pool-{pool}"


def group_name(environment: str, pool: str) -> str:
    return f"slipway-{environment}-{pool}"


# Lifecycle hooks of a group: what its instances wait for after their start, and before their end.
JOINED_HOOK, LEFT_HOOK = "slipway-joined", "slipway-left"


def sts_url(aws: AwsPlan) -> str:
    """Of the region, which an interface endpoint answers for."""
    return f"https://sts.{aws.region}.amazonaws.com/"
