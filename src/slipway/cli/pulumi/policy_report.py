"""What this checkout's policies find in the resources of a preview.

policies/check.py judges them in a process of its own: the policies import nothing of the rest, and
the rest nothing of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.cli.environment import CHECKOUT
from slipway.cli.errors import CliError
from slipway.diff.policies import PolicyReport, read_policy_report

BLOCKED = 1  # the exit code of policies/check.py when something blocks


def policy_report(
    resources: Mapping[str, Any], environment: str, usd_per_hour_before: float | None
) -> PolicyReport:
    """Judges `{"resources": [...]}` in this interpreter, so that nothing has to be made first. An
    environment without prices cost nothing before."""
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
            f"the policies could not be asked:\n{done.stderr.strip()}",
            fix="put right what it says; slipway diff --policies FILE takes what they found before",
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
            "-B",  # nothing is written, not even byte code
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
