"""TLS between hosts: the proxy in front of a replica."""

from __future__ import annotations

from slipway.config.artifacts import Artifacts
from slipway.plan.certificate_names import peer_names
from slipway.plan.platform import TlsProxySpec
from slipway.planner.units import MIB

from .supply.supply import Supply

# An Envoy with one worker and four listeners: 64 MB idle and 80 MB with 256 streams, of which 50 MB
# are its program, shared by all of a node's (measured, 2026-11-25).
PROXY_MEMORY_BYTES = 96 * MIB
PROXY_CPU_MHZ = 50


def plan_proxy(supply: Supply, environment: str, artifacts: Artifacts) -> TlsProxySpec | None:
    """The proxy of each replica on this pool; None where nothing leaves the machine."""
    memory_bytes = proxy_memory_bytes(supply)
    if not memory_bytes:
        return None
    peers, by_name = peer_names(environment), supply.joins_by_itself
    return TlsProxySpec(
        server_name=peers.replica,
        # Consul's agent on the node shows the node's certificate, which has its address or, of a
        # range, only names.
        clients=(peers.gateway, peers.prometheus, *([peers.replica] if by_name else [])),
        tool=f"envoy-{artifacts.tools['envoy']}",
        cpu_mhz=PROXY_CPU_MHZ,
        memory_bytes=memory_bytes,
        by_name=by_name,
    )


def proxy_memory_bytes(supply: Supply) -> int:
    """Memory of the proxy beside each replica on this pool; 0 where there is none."""
    return 0 if supply.on_loopback else PROXY_MEMORY_BYTES
