"""The gRPC server, without an Envoy."""

from __future__ import annotations

import asyncio

from control_plane.hub import Hub
from control_plane.metrics import Metrics
from control_plane.server import GRPC_OPTIONS, DiscoveryService, grpc_server
from pings import answered_pings
from support.waiting import ADDRESS, eventually


async def test_a_quiet_connection_is_kept_however_often_envoy_sends_keepalive_pings() -> None:
    server = grpc_server(DiscoveryService(Hub(), Metrics()))
    port = server.add_insecure_port(f"{ADDRESS}:0")
    await server.start()
    try:
        assert await answered_pings(ADDRESS, port, 20) == 20
    finally:
        await server.stop(0)


async def test_an_envoy_whose_host_died_is_forgotten() -> None:
    service = DiscoveryService(Hub(), Metrics())
    server = grpc_server(service)
    port = server.add_insecure_port(f"{ADDRESS}:0")
    await server.start()
    _, writer = await asyncio.open_connection(ADDRESS, port)  # it answers no ping
    try:
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        writer.write(frame(1, 4, 1, b"".join(header(*each) for each in REQUEST)))
        await eventually(lambda: len(service.envoys) == 1, "the stream is open")

        await eventually(lambda: not service.envoys, "it is forgotten")
    finally:
        writer.close()
        await server.stop(0)


def test_an_envoy_is_asked_and_waited_for_no_longer_than_6_s() -> None:
    options = dict(GRPC_OPTIONS)
    assert options["grpc.keepalive_time_ms"] + options["grpc.http2.ping_timeout_ms"] <= 6000


REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"),
    (":authority", "control-plane"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def header(name: str, value: str) -> bytes:
    """Of HPACK, as plain text that is not remembered."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
