"""Interrupts `up` in one of its phases."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.live.environments import Platform
from tests.waiting import HANG_S, until
from toolchain.settings import default_cache

# Each pattern is of what `up` prints or logs once a phase is under way. "tools" appears only if a
# Python environment is missing, "restarting agents" only if agents were stopped.
PHASES = {
    "tools": r"/xds-\w+\.log\n",
    "preparing": r"bundles: the services' code",
    "restarting agents": r"agents: those of an earlier run",
    "starting clusters": r"consul-server-0 creating",
    "making jobs": r"nomad:index:Job \S+ creat",
    "waiting for a model": r"model-sim-a-ready creating",
    "probe": r"probe: both protocols",
}


def interrupt_up(platform: Platform, pattern: str, number: signal.Signals) -> int:
    """Starts `up`, signals it once the pattern is met; returns its exit code.

    AssertionError if it was not met, so that the phase was not interrupted.
    """
    (platform.run / "logs" / "pulumi.log").unlink(missing_ok=True)
    with (
        tempfile.NamedTemporaryFile(prefix="slipway-up-") as printed,
        subprocess.Popen(
            platform.command("up"),
            cwd=platform.checkout,
            env=platform.environ,
            stdout=subprocess.DEVNULL,
            stderr=printed,
        ) as process,
    ):
        said = Path(printed.name)
        until(
            lambda: process.poll() is not None or re.search(pattern, _seen(platform, said)),
            pattern,
            pause_s=0.02,
            log=said,
        )
        met = process.poll() is None
        process.send_signal(number)
        code = process.wait(timeout=HANG_S)
    assert met, f"up was over before {pattern!r}"
    return code


def _seen(platform: Platform, printed: Path) -> str:
    """What `up` has printed, Pulumi's own log, and the logs of installations under way."""
    logs = [printed, platform.run / "logs" / "pulumi.log"]
    cache = default_cache(platform.environ or os.environ)
    installing = [f"{path}\n" for path in (cache / "envs").glob("*.log")]
    return "".join(
        [*(log.read_text(errors="replace") for log in logs if log.exists()), *installing]
    )
