"""The findings of this checkout's policies in the resources of a preview.

policies/check.py runs in its own process: the policies and the rest of the project do not import
each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.environment import CHECKOUT
from cli.errors import CliError
from slipway.diff.policies import PolicyReport, read_policy_report

BLOCKED = 1  # the exit code of policies/check.py when something blocks


def policy_report(
    resources: Mapping[str, Any], environment: str, usd_per_hour_before: float | None
) -> PolicyReport:
    """Checks `{"resources": [...]}` with this interpreter, so that no environment has to be created
    first. Without prices the cost before the change is 0."""
    done = run_check(
        resources,
        environment,
        usd_per_hour_before or 0.0,
        python=Path(sys.executable),
        options=["--json"],
        capture_output=True,
    )
    if done.returncode not in (0, BLOCKED) or not done.stdout.strip():
        raise CliError(
            f"the policies could not be run:\n{done.stderr.strip()}",
            fix="correct what it reports; slipway diff --policies FILE uses an earlier report",
        )
    return read_policy_report(json.loads(done.stdout))


def run_check(
    resources: Mapping[str, Any],
    environment: str,
    usd_per_hour_before: float,
    *,
    python: Path,
    options: Sequence[str] = (),
    capture_output: bool = False,
) -> subprocess.CompletedProcess[str]:
    """policies/check.py with `{"resources": [...]}`; it prints to the terminal unless captured."""
    return subprocess.run(
        [
            str(python),
            "-B",  # write nothing, not even bytecode
            str(CHECKOUT / "policies" / "check.py"),
            f"--environment={environment}",
            f"--usd-per-hour-before={usd_per_hour_before}",
            *options,
        ],
        input=json.dumps(resources),
        capture_output=capture_output,
        text=True,
        check=False,
    )
