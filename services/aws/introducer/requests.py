"""What a node that has joined may have done, for itself alone.

Nodes have no token of Nomad. `evacuate` has all work on the node end at once and start elsewhere,
for a machine that is about to end; `forget` removes a node whose agents have ended from Nomad's
list; `has DIGEST` writes down in the node's metadata which artifacts it has, for the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from program.clusters import nodes, purge
from program.http_json import Api

from introducer.claims import RefusedError

FORCE = -1  # nanoseconds: Nomad's deadline of a drain in which nothing moves one by one
ARTIFACTS = "slipway_artifacts"  # services/operator/gates/pool.py reads it
_HAS = re.compile(r"has ([0-9a-f]{64})")


def do(nomad: Api, host: str, request: str) -> str:
    """Returns what was done, for the log. Raises RefusedError for a request that is not known, and
    ApiError."""
    found = _HAS.fullmatch(request)
    listed = nodes(nomad, host)
    if request == "evacuate":
        _evacuate(nomad, listed)
    elif request == "forget":
        purge(nomad, listed)
    elif found is not None:
        _write_down(nomad, listed, found[1])
    else:
        raise RefusedError("the request is none that a node may make")
    return {"evacuate": "evacuates", "forget": "forgot"}.get(request, "knows the artifacts of")


def _evacuate(nomad: Api, listed: Iterable[Mapping[str, Any]]) -> None:
    drain = {"DrainSpec": {"Deadline": FORCE}, "MarkEligible": False}
    for node in listed:
        nomad.post(f"/v1/node/{node['ID']}/drain", drain)


def _write_down(nomad: Api, listed: Iterable[Mapping[str, Any]], digest: str) -> None:
    for node in listed:
        if node["Status"] == "ready":
            wanted = {"NodeID": node["ID"], "Meta": {ARTIFACTS: digest}}
            nomad.post(f"/v1/client/metadata?node_id={node['ID']}", wanted)
