"""The user's own AWS command line, with the user's own credentials."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from program.errors import HostError

AWS = "aws"
NOT_INSTALLED = (
    f"the AWS command line ({AWS}) is not installed\nfix: install it; it speaks to AWS with your"
    " own credentials"
)


def command(region: str) -> list[str]:
    return [AWS, "--region", region]


def run(region: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Raises HostError only if it is not installed."""
    try:
        return subprocess.run(
            [*command(region), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise HostError(NOT_INSTALLED) from None


def ask(region: str, *arguments: str) -> Any:
    """The answer, from JSON. Raises HostError with what AWS says."""
    done = run(region, *arguments, "--output", "json")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise HostError(f"aws {' '.join(arguments[:2])}: {said}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise HostError(f"aws {' '.join(arguments[:2])}: {error}") from None
