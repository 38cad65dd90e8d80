"""Which replicas stay in use although Consul takes them for unhealthy. Pure.

Replicas that fail together rather tell of Consul, its agents or the network between them than of
themselves. Envoy asks each replica's liveness page on its own, so it sends nothing to one that has
really gone; but a cluster that is emptied because of a wrong answer refuses every request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .routing import Endpoint


def with_held(endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Endpoints of one cluster. Those that have been healthy and are not any more are held if no
    others are left, or if they are several and at least half. One of several is believed.

    Only replicas with a liveness page are held: nobody else would find those that are dead.
    """
    members = tuple(endpoints)
    fallen = [each for each in members if each.proven and not each.healthy and each.liveness_port]
    healthy = sum(endpoint.healthy for endpoint in members)
    collapsed = healthy == 0 or (len(fallen) > 1 and len(fallen) >= healthy)
    held = frozenset(fallen) if collapsed else frozenset()
    return tuple(replace(each, held=each in held) for each in members)
