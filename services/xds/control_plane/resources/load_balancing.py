"""How a cluster chooses the replica of a request.

By affinity: Maglev with bounded loads. Every Envoy builds the same table from the names of the
replicas, so all place a key alike, also one that has just started; a replica that restarts
elsewhere keeps its keys, and when one of N leaves, hardly more than its own keys move. A replica
with more than `bound_percent` of the mean number of requests in flight is passed over.
"""

from __future__ import annotations

from typing import Any

from ..routing import Protocol, Routing

# Set by the listener's filters. It reaches the replica: Envoy would remove it before it hashes.
KEY_HEADER = "x-slipway-key"
# The replica's part of the table differs from 1/N by a hundredth at most if the table has a hundred
# entries a replica (Maglev's paper, section 5.3). A prime, as Envoy demands.
TABLE_SIZE = 65_537

_TYPE = "type.googleapis.com/envoy.extensions.load_balancing_policies"
_Json = dict[str, Any]


def load_balancing_policy(routing: Routing, protocol: Protocol) -> _Json:
    """A cluster's `load_balancing_policy`."""
    if routing.has_key(protocol):
        name, config = "maglev", _maglev(routing.bound_percent)
    else:
        name, config = "least_request", _least_request()
    typed = {"name": f"envoy.load_balancing_policies.{name}", "typed_config": config}
    return {"policies": [{"typed_extension_config": typed}]}


def hash_policy(routing: Routing, protocol: Protocol) -> list[_Json]:
    """A route's `hash_policy`; empty without keys."""
    return [{"header": {"header_name": KEY_HEADER}}] if routing.has_key(protocol) else []


def _maglev(bound_percent: int) -> _Json:
    return {
        "@type": f"{_TYPE}.maglev.v3.Maglev",
        "table_size": str(TABLE_SIZE),
        "consistent_hashing_lb_config": {"hash_balance_factor": bound_percent},
    }


def _least_request() -> _Json:
    return {"@type": f"{_TYPE}.least_request.v3.LeastRequest", "choice_count": 2}
