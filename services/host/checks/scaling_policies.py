"""The health check of the Nomad Autoscaler's job: whether it handles every scaling policy.

    scaling_policies.py METRICS_URL

Version 0.5.0 forgets its policies when Nomad's server ends one of its queries, and treats those
that Nomad lists afterwards as unchanged (Run in its policy/manager.go, MonitorIDs in its
policy/nomad/source.go). It still reports itself healthy, but never scales again until it is
restarted.

Environment: NOMAD_ADDR, NOMAD_TOKEN, NOMAD_CACERT; the certificate is in the folder of the last.
Exit codes are those of a Consul check.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from program.addresses import url
from program.http_json import Api, ApiError
from program.waiting import say

PASSING, CRITICAL = 0, 2
HANDLED = re.compile(r"^nomad_autoscaler_policy_total_num (\S+)$", re.MULTILINE)


def main() -> int:
    return check(*sys.argv[1:])


def check(metrics_url: str) -> int:
    nomad = Api(
        os.environ["NOMAD_ADDR"],
        {"X-Nomad-Token": os.environ["NOMAD_TOKEN"]},
        certificate=Path(os.environ.get("NOMAD_CACERT", "")).parent,
    )
    try:
        listed = sum(policy["Enabled"] for policy in nomad.get("/v1/scaling/policies"))
    except ApiError as error:  # a restart of the autoscaler would not help
        say(f"unknown: {error}")
        return PASSING
    try:
        handled = _handled(metrics_url)
    except ApiError as error:
        say(str(error))
        return CRITICAL
    say(f"{handled} of {listed} policies are handled")
    return PASSING if handled >= listed else CRITICAL


def _handled(metrics_url: str) -> int:
    parts = urlsplit(metrics_url)
    text = Api(url(parts.scheme, parts.netloc)).text(f"{parts.path}?{parts.query}")
    found = HANDLED.search(text)
    return int(float(found[1])) if found else 0  # the metric appears after a second
