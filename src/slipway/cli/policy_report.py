"""What this checkout's policies find in the resources of a preview."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from slipway.cli.environment import CHECKOUT
from slipway.cli.errors import CliError
from slipway.diff.policies import PolicyReport, read_policy_report

BLOCKED = 1  # the exit code of policies/check.py when something blocks


def policy_report(
    resources: Mapping[str, Any], environment: str, usd_per_hour_before: float | None
) -> PolicyReport:
    """Judges `{"resources": [...]}` with policies/check.py, in a process of its own: the policies
    import nothing of the rest, and the rest nothing of them. An environment without prices cost
    nothing before."""
    command = [sys.executable, "-B", str(CHECKOUT / "policies" / "check.py"), "--json"]
    done = subprocess.run(
        [
            *command,
            f"--environment={environment}",
            f"--usd-per-hour-before={usd_per_hour_before or 0.0}",
        ],
        input=json.dumps(resources),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, BLOCKED) or not done.stdout.strip():
        raise CliError(
            f"the policies could not be asked:\n{done.stderr.strip()}",
            fix="put right what it says; slipway diff --policies FILE takes what they found before",
        )
    return read_policy_report(json.loads(done.stdout))
