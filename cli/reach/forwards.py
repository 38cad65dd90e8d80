"""The forwards of an environment: from an address of the operator's machine to hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any

from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import PlatformPlan

DOCUMENT_VERSION = 1  # schemas/forwards.schema.json
VARIABLE = "SLIPWAY_FORWARDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """`local` is an address of the operator's machine; all `targets` give the same answers. `led`
    is set where they are servers of a cluster with a leader."""

    local: Endpoint
    targets: tuple[Endpoint, ...]
    led: bool = False


def forwards_of(plan: PlatformPlan, leaving: Sequence[str] = ()) -> tuple[Forward, ...]:
    """The forwards; none where the operator's machine reaches the hosts directly. `leaving` are
    addresses of hosts that this update removes: until they are gone, gates ask the control planes
    there, too."""
    return tuple(_forwards(plan, leaving)) if plan.operator.forwarded else ()


def _forwards(plan: PlatformPlan, leaving: Sequence[str]) -> Iterator[Forward]:
    seen = plan.operator
    for local, api in ((seen.consul, plan.consul), (seen.nomad, plan.nomad)):
        yield Forward(local=local, targets=plan.on_servers(api), led=True)
    yield Forward(local=seen.prometheus, targets=(plan.monitoring.prometheus,))
    # Commands ask the gateway at the first address. The other Envoys' own forwards come later, and
    # so does what forwards_document says of their listeners.
    (_, first), *others = envoys = plan.envoys_as_seen
    listeners = tuple(envoy.listener for envoy, _ in envoys)
    yield Forward(local=first.listener, targets=listeners)
    for envoy, local_envoy in others:
        yield Forward(local=local_envoy.listener, targets=(envoy.listener,))
    for envoy, local_envoy in envoys:
        yield Forward(local=local_envoy.metrics, targets=(envoy.metrics,))
        yield Forward(local=local_envoy.xds_http, targets=(envoy.xds_http,))
    xds, last = (each.xds_http for each in envoys[-1])
    tunnels = plan.ssh.tunnels if plan.ssh else None
    own = [tunnels.private(address) if tunnels else address for address in leaving]
    for number, address in enumerate(own, start=1):
        local = replace(last, host=str(IPv4Address(last.host) + number))
        yield Forward(local=local, targets=(replace(xds, host=address),))


def variables_of(plan: PlatformPlan, leaving: Sequence[str] = ()) -> Mapping[str, str]:
    """The variables by which programs of the operator's machine find forwarded addresses and verify
    the servers behind them."""
    forwards = forwards_of(plan, leaving)
    if not forwards:
        return {}
    return {
        VARIABLE: json.dumps(forwards_document(forwards), sort_keys=True),
        "CONSUL_TLS_SERVER_NAME": plan.operator.consul.server_name,
        "NOMAD_TLS_SERVER_NAME": plan.operator.nomad.server_name,
    }


def forwards_document(forwards: tuple[Forward, ...]) -> dict[str, Any]:
    """schemas/forwards.schema.json"""
    ways = {}
    for forward in forwards:
        way = {"at": forward.local.authority, "server_name": forward.local.server_name}
        for asked in (forward.local, *forward.targets):
            ways[asked.authority] = way
    return {"schema_version": DOCUMENT_VERSION, "forwards": ways}
