"""Which requests reach Nomad, Consul and Prometheus: the reading ones that their pages make.

They are sent with the operator's rights, under which a GET can show secrets (tokens, variables,
keys) or open a shell in an allocation. So what is not listed here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

READING = frozenset({"GET", "HEAD"})
JOB_STATUSES = "/v1/jobs/statuses"  # Nomad's page posts the IDs of the jobs that it shows

_NAME = r"[^/]+"
_JOB = rf"{_NAME}(?:/(?:periodic|dispatch)-{_NAME})?"  # runs of a job have a slash in their names
_ALLOWED: Mapping[str, Sequence[str]] = {
    "nomad": (
        r"/ui(?:/.*)?",
        r"/v1/jobs(?:/statuses)?",
        rf"/v1/job/{_JOB}",
        rf"/v1/job/{_JOB}/(?:actions|allocations|deployment|deployments|evaluations|scale|services"
        r"|submission|summary|versions)",
        r"/v1/nodes",
        rf"/v1/node/{_NAME}(?:/allocations)?",
        rf"/v1/node/pools|/v1/node/pool/{_NAME}(?:/jobs|/nodes)?",
        r"/v1/allocations",
        rf"/v1/allocation/{_NAME}(?:/checks|/services)?",
        r"/v1/evaluations",
        rf"/v1/evaluation/{_NAME}(?:/allocations)?",
        r"/v1/deployments",
        rf"/v1/deployment/{_NAME}",
        rf"/v1/deployment/allocations/{_NAME}",
        r"/v1/namespaces",
        rf"/v1/namespace/{_NAME}",
        r"/v1/regions",
        r"/v1/services",
        rf"/v1/service/{_NAME}",
        r"/v1/status/(?:leader|peers)",
        r"/v1/agent/members",
        r"/v1/plugins",
        r"/v1/volumes",
        r"/v1/scaling/policies",
        # What tasks print; other files of theirs may hold keys.
        rf"/v1/client/fs/logs/{_NAME}",
        rf"/v1/client/allocation/{_NAME}/stats",
        r"/v1/client/stats",
    ),
    "consul": (
        r"/ui(?:/.*)?",
        r"/v1/internal/ui/(?:catalog-overview|nodes|services|exported-services)",
        rf"/v1/internal/ui/(?:node|service-topology|gateway-services-nodes)/{_NAME}",
        r"/v1/catalog/(?:datacenters|nodes|services)",
        rf"/v1/catalog/(?:node|service)/{_NAME}",
        rf"/v1/health/(?:node|service|checks|state)/{_NAME}",
        r"/v1/coordinate/nodes",
        r"/v1/status/(?:leader|peers)",
        r"/v1/agent/members",
    ),
    "prometheus": (
        r"/",
        r"/(?:graph|query|alerts|targets|rules|service-discovery|status|tsdb-status|flags|config"
        r"|runtimeinfo|alertmanager-discovery)",
        r"/(?:assets|static)/.*",
        r"/(?:favicon\.(?:ico|svg)|manifest\.json)",
        r"/-/(?:healthy|ready)",
        r"/api/v1/(?:query|query_range|query_exemplars|format_query|parse_query|series|labels)",
        rf"/api/v1/label/{_NAME}/values",
        r"/api/v1/(?:targets|targets/metadata|rules|alerts|alertmanagers|metadata|scrape_pools"
        r"|features)",
        r"/api/v1/status/(?:buildinfo|runtimeinfo|flags|tsdb|walreplay)",
        r"/api/v1/notifications(?:/live)?",
    ),
}
_PATTERNS = {
    name: re.compile("|".join(f"(?:{each})" for each in paths)) for name, paths in _ALLOWED.items()
}
# What servers may read in other ways: a step up, an empty step, what is still encoded.
_AMBIGUOUS = re.compile(r"(?:^|/)\.{1,2}(?:/|$)|//|[\\%\x00-\x20\x7f]")


def is_allowed(upstream: str, method: str, raw_path: str) -> bool:
    """Whether a request may be sent on; `raw_path` is the path as it came, still encoded."""
    path = unquote(raw_path, errors="replace")
    asks = (upstream, method, path) == ("nomad", "POST", JOB_STATUSES)
    return (
        (method in READING or asks)
        and not _AMBIGUOUS.search(path)
        and _PATTERNS[upstream].fullmatch(path) is not None
    )
