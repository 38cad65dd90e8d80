"""The exports that `nomad` and `consul` need in a person's shell."""

from __future__ import annotations

import shlex
from pathlib import Path

from cli.environment import exports


def shell_exports(consul: str, nomad: str, credentials: Path) -> str:
    """Lines for a POSIX shell: the addresses of both clusters, and the operator's tokens for them.
    `credentials` is the folder of the tokens. No line has a token: Nomad's is read by the shell."""
    tokens = credentials / "tokens"
    variables = {
        "CONSUL_HTTP_ADDR": consul,
        "CONSUL_HTTP_TOKEN_FILE": str(tokens / "consul"),
        "NOMAD_ADDR": nomad,
    }
    of_nomad = shlex.quote(str(tokens / "nomad"))
    return exports(variables) + f'export NOMAD_TOKEN="$(cat {of_nomad})"\n'
