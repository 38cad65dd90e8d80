"""The gRPC service: each stream of DeltaAggregatedResources drives one DeltaStream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from . import protobuf
from .hub import Hub, Published
from .metrics import Metrics
from .protocol.messages import Acked, Action, Rejected, Request, Send, Silent
from .protocol.stream import DeltaStream
from .snapshot import ResourceType
from .tls import node_ids

TICK_S = 1.0
GRPC_OPTIONS = (
    # Two processes must not share a port by accident; the second one must fail.
    ("grpc.so_reuseport", 0),
    # Envoy sends a keepalive ping every 2 s, and a stream is idle while nothing changes. By
    # default gRPC closes a connection at the third such ping.
    ("grpc.http2.max_ping_strikes", 0),
    # The host of an Envoy may die without a word. Gates wait for every Envoy that is connected, so
    # it is forgotten within 6 s. By default gRPC asks every two hours, a quiet one only twice, and
    # waits a minute for an answer, whatever `grpc.keepalive_timeout_ms` says.
    ("grpc.keepalive_time_ms", 3000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.ping_timeout_ms", 3000),
)

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Envoy:
    """A connected Envoy. `node` is empty until its first request."""

    stream: DeltaStream
    peer: str
    connected_s: float
    node: str = ""


def grpc_server(service: DiscoveryService) -> grpc.aio.Server:
    """A gRPC server for aggregated discovery, without a port yet."""
    server = grpc.aio.server(options=GRPC_OPTIONS)
    server.add_generic_rpc_handlers((protobuf.discovery_handler(service.delta),))
    return server


@dataclass(slots=True)
class DiscoveryService:
    """Aggregated discovery, incremental only. `envoys` are the open streams."""

    hub: Hub
    metrics: Metrics
    envoys: set[Envoy] = field(default_factory=set)

    async def delta(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """One stream: DeltaDiscoveryRequests in, DeltaDiscoveryResponses out."""
        now_s = time.monotonic()
        allowed = node_ids(context)
        envoy = Envoy(stream=DeltaStream(now_s=now_s), peer=context.peer(), connected_s=now_s)
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        reader = asyncio.create_task(_read(requests, inbox))
        self.envoys.add(envoy)
        self.metrics.envoys.set(len(self.envoys))
        self.hub.subscribe(inbox.put_nowait)
        try:
            async for event in _events(inbox):
                if not envoy.node and isinstance(event, protobuf.DeltaRequest):
                    await _must_be(allowed, event, context)
                for action in self._react(envoy, event):
                    if isinstance(action, Send):
                        yield self._response(action)
                    else:
                        self._observe(envoy, action)
        finally:
            self.hub.unsubscribe(inbox.put_nowait)
            self.envoys.discard(envoy)
            self.metrics.envoys.set(len(self.envoys))
            reader.cancel()
            log.info("envoy %s (%s) disconnected", envoy.node, envoy.peer)

    def _react(self, envoy: Envoy, event: Any) -> list[Action]:
        now_s = time.monotonic()
        if event is None:
            return envoy.stream.on_tick(now_s)
        if isinstance(event, Published):
            return envoy.stream.on_snapshot(event, now_s)
        if event.node.id and not envoy.node:
            envoy.node = event.node.id
            log.info("envoy %s (%s) connected", envoy.node, envoy.peer)
        request = _request(event)
        if request is None:
            log.warning("envoy %s asks for %s, which is not served", envoy.node, event.type_url)
            return []
        return envoy.stream.on_request(request, now_s)

    def _response(self, send: Send) -> Any:
        response = protobuf.delta_response(
            type_url=send.resource_type.value,
            nonce=send.nonce,
            resources=[(r.name, r.version, r.body) for r in send.resources],
            removed=send.removed,
        )
        label = send.resource_type.name.lower()
        self.metrics.responses.labels(label).inc()
        self.metrics.response_bytes.labels(label).inc(response.ByteSize())
        return response

    def _observe(self, envoy: Envoy, event: Acked | Rejected | Silent) -> None:
        label = event.resource_type.name.lower()
        match event:
            case Acked(latency_s=latency_s, convergence_s=convergence_s):
                self.metrics.ack_seconds.labels(label).observe(latency_s)
                if convergence_s is not None:
                    self.metrics.convergence_seconds.labels(label).observe(convergence_s)
            case Rejected(names=names, detail=detail, culprit=culprit):
                self.metrics.rejections.labels(label).inc()
                verdict = (
                    f"{culprit} is quarantined" if culprit else f"bisecting {len(names)} resources"
                )
                log.error("envoy %s rejects %s: %s: %s", envoy.node, label, verdict, detail)
            case Silent(names=names):
                self.metrics.unanswered.labels(label).inc()
                log.error("envoy %s does not answer for %s: %s", envoy.node, label, names)


async def _read(requests: AsyncIterator[Any], inbox: asyncio.Queue[Any]) -> None:
    """Puts requests into the inbox, then `_END` once the client has closed its side or is gone."""
    try:
        async for request in requests:
            inbox.put_nowait(request)
    finally:
        inbox.put_nowait(_END)


async def _events(inbox: asyncio.Queue[Any]) -> AsyncIterator[Any]:
    """The inbox's items, and None for each second without one."""
    while True:
        try:
            event = await asyncio.wait_for(inbox.get(), TICK_S)
        except asyncio.TimeoutError:
            event = None
        if event is _END:
            return
        yield event


async def _must_be(allowed: set[str] | None, request: Any, context: Any) -> None:
    """End a stream whose node id its certificate does not give: an Envoy gets only its own
    configuration."""
    if allowed is None or request.node.id in allowed:
        return
    reason = f"the node id {request.node.id!r} is not in the certificate: {sorted(allowed)}"
    log.error("stream refused: %s", reason)
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)


def _request(message: Any) -> Request | None:
    """None for a type that is not served."""
    try:
        resource_type = ResourceType(message.type_url)
    except ValueError:
        return None
    return Request(
        resource_type=resource_type,
        subscribe=tuple(message.resource_names_subscribe),
        unsubscribe=tuple(message.resource_names_unsubscribe),
        initial_versions=dict(message.initial_resource_versions),
        nonce=message.response_nonce,
        error=message.error_detail.message if message.HasField("error_detail") else None,
    )


_END = object()
