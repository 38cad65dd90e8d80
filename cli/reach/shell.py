"""What a person's shell needs to ask an environment that `slipway reach` keeps within reach."""

from __future__ import annotations

import shlex
from pathlib import Path

from cli.environment import exports
from slipway.plan.platform import PlatformPlan


def shell_exports(plan: PlatformPlan, credentials: Path) -> str:
    """Lines for a POSIX shell: the addresses of both clusters, and the operator's tokens for them.
    `credentials` is the folder of the tokens. No line has a token: Nomad's is read by the shell."""
    tokens = credentials / "tokens"
    variables = {
        "CONSUL_HTTP_ADDR": plan.operator.consul.url,
        "CONSUL_HTTP_TOKEN_FILE": str(tokens / "consul"),
        "NOMAD_ADDR": plan.operator.nomad.url,
    }
    nomad = shlex.quote(str(tokens / "nomad"))
    return exports(variables) + f'export NOMAD_TOKEN="$(cat {nomad})"\n'
