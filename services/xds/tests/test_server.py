"""The gRPC server, without an Envoy."""

from __future__ import annotations

from control_plane.hub import Hub
from control_plane.metrics import Metrics
from control_plane.server import DiscoveryService, grpc_server
from pings import answered_pings
from support.waiting import ADDRESS


async def test_a_quiet_connection_is_kept_however_often_envoy_sends_keepalive_pings() -> None:
    server = grpc_server(DiscoveryService(Hub(), Metrics()))
    port = server.add_insecure_port(f"{ADDRESS}:0")
    await server.start()
    try:
        assert await answered_pings(ADDRESS, port, 20) == 20
    finally:
        await server.stop(0)
