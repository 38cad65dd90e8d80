"""Whether the Nomad Autoscaler looks after every scaling policy: the health check of its job.

    scaling_policies.py METRICS_URL

Version 0.5.0 forgets its policies when Nomad's server ends a query of it, and takes those that
Nomad lists afterwards for unchanged (Run in its policy/manager.go, MonitorIDs in its
policy/nomad/source.go). It goes on, healthy by its own account, and never scales again until it
is restarted.

Environment: NOMAD_ADDR, NOMAD_TOKEN. Exit codes are those of a check in Consul.
"""

from __future__ import annotations

import os
import re
import sys
from urllib.parse import urlsplit

from http_json import Api, ApiError
from waiting import say

PASSING, CRITICAL = 0, 2
HANDLED = re.compile(r"^nomad_autoscaler_policy_total_num (\S+)$", re.MULTILINE)


def main(arguments: list[str]) -> int:
    (metrics_url,) = arguments
    nomad = Api(os.environ["NOMAD_ADDR"], {"X-Nomad-Token": os.environ["NOMAD_TOKEN"]})
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
    say(f"{handled} of {listed} policies are looked after")
    return PASSING if handled >= listed else CRITICAL


def _handled(metrics_url: str) -> int:
    url = urlsplit(metrics_url)
    text = Api(f"{url.scheme}://{url.netloc}").text(f"{url.path}?{url.query}")
    found = HANDLED.search(text)
    return int(float(found[1])) if found else 0  # it is not there before the first second


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
