"""What replicas that were killed left on this machine outside of their folders."""

from __future__ import annotations

import subprocess
import sys

from slipway.cli.console import say
from slipway.cli.environment import Environment

PROGRAM = "services/triton_vllm/leftovers.py"


def clear_leftovers(environment: Environment) -> None:
    """Removes engines' shared memory and what Triton leaves in /tmp, once all agents have ended.

    Replicas do it themselves. Only where their guards were killed as well is something left.
    """
    done = subprocess.run(
        [sys.executable, environment.checkout / PROGRAM],
        env=environment.child_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        say(f"  shared memory of killed replicas may be left in /dev/shm: {lines[-1]}")
