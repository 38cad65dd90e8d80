"""What a node that has joined may have done, for itself alone.

Nodes have no token of Nomad. `vacate` has work move to other nodes where there is room; `evacuate`
has all of it end at once, for a machine that is about to end; `forget` removes a node whose agents
have ended from Nomad's list; `has DIGEST` writes down which artifacts it has, for the operator.

The last is a variable and not metadata of the node: to set that, Nomad's servers would pass this
program's own token to the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from program.clusters import nodes, purge
from program.http_json import Api
from program.waiting import wait_until

from introducer.claims import RefusedError

# Of a drain, in nanoseconds. Nomad (drainer/drain_heap.go) mistakes its own -1 for no deadline
# while another node drains.
AT_ONCE, NO_DEADLINE = 1, 0
DRAINED_S = 15
ABOUT = "/v1/var/slipway/nodes/{host}"  # services/operator/gates/pool.py reads it
_HAS = re.compile(r"has ([0-9a-f]{64})")


def do(nomad: Api, host: str, request: str) -> str:
    """Returns what was done, for the log. Raises RefusedError for a request that is not known, and
    HostError if it could not be done."""
    has = _HAS.fullmatch(request)
    if has is not None:
        about = {"Path": f"slipway/nodes/{host}", "Items": {"artifacts": has[1]}}
        nomad.put(ABOUT.format(host=host), about)
        return "knows the artifacts of"
    if request not in ("vacate", "evacuate", "forget"):
        raise RefusedError("the request is none that a node may make")
    listed = nodes(nomad, host)
    if request == "forget":
        purge(nomad, listed)
        nomad.delete(ABOUT.format(host=host))
        return "forgot"
    _drain(nomad, listed, NO_DEADLINE if request == "vacate" else AT_ONCE)
    if request == "evacuate":
        for node in listed:
            _wait_until_all_is_told_to_end(nomad, node)
    return f"{request}s"


def _drain(nomad: Api, listed: Iterable[Mapping[str, Any]], deadline: int) -> None:
    drain = {"DrainSpec": {"Deadline": deadline}, "MarkEligible": False}
    for node in listed:
        nomad.post(f"/v1/node/{node['ID']}/drain", drain)


def _wait_until_all_is_told_to_end(nomad: Api, node: Mapping[str, Any]) -> None:
    """The node's own drain, which comes next, would put off what is not told yet."""

    def drains() -> str | None:
        found = nomad.get(f"/v1/node/{node['ID']}")
        return "its work is not told to end yet" if found["DrainStrategy"] else None

    wait_until(str(node["Name"]), drains, DRAINED_S)
