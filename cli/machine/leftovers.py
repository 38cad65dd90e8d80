"""Cleans up what killed replicas left on this machine outside their folders."""

from __future__ import annotations

import subprocess
import sys

from cli.console import say
from cli.environment import Environment

PROGRAM = "services/triton_vllm/leftovers.py"


def clear_leftovers(environment: Environment) -> None:
    """Removes engines' shared memory and what Triton leaves in /tmp, once all agents have ended.

    Replicas do this themselves unless their guards were killed too.
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
