"""Interrupts `up` in one of its phases."""

from __future__ import annotations

import re
import signal
import subprocess

from tests.live.environments import Platform
from tests.waiting import HANG_S

# Each pattern is a line of `up` that shows that a phase is under way. "tools" appears only if a
# Python environment is missing, "restarting agents" only if agents were stopped.
PHASES = {
    "tools": r"  xds: installing",
    "preparing": r"bundles: the services' code",
    "restarting agents": r"agents: those of an earlier run",
    "starting clusters": r"consul-server-0 creating",
    "making jobs": r"nomad:index:Job \S+ creat",
    "waiting for a model": r"model-sim-a-ready creating",
    "probe": r"probe: both protocols",
}


def interrupt_up(platform: Platform, pattern: str, number: signal.Signals) -> int:
    """Starts `up`, signals it at the first line that matches; returns its exit code.

    AssertionError if no line matched, so that the phase was not interrupted.
    """
    with subprocess.Popen(
        platform.command("up"),
        cwd=platform.checkout,
        env=platform.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        met = False
        for line in process.stderr:
            if not met and re.search(pattern, line):
                met = True
                process.send_signal(number)
        code = process.wait(timeout=HANG_S)
    assert met, f"up printed no line like {pattern!r}"
    return code
