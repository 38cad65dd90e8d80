"""What a fixed host may do in AWS. Pure."""

from __future__ import annotations

from typing import Any

from components.aws_machine.access import decryption, policy, reading_secret
from slipway.plan.aws import AwsPlan


def secret_name(environment: str, host: str) -> str:
    return f"slipway/{environment}/hosts/{host}"


def role_name(environment: str, host: str) -> str:
    return f"slipway-{environment}-{host}"


def own_secret(environment: str, aws: AwsPlan, host: str) -> dict[str, Any]:
    """A host reads its own secret and nothing else's."""
    name = secret_name(environment, host)
    return policy(reading_secret(aws, name), *decryption(aws, "secretsmanager"))
