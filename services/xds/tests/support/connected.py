"""Connected Envoys without a process: their streams have acknowledged what they are told."""

from __future__ import annotations

from typing import Any

from control_plane.hub import Published
from control_plane.protocol.messages import Request, Send
from control_plane.protocol.stream import DeltaStream
from control_plane.server import Envoy
from control_plane.snapshot import ResourceType, Snapshot, changed


def envoy(holds: Snapshot | None, node: str = "gateway") -> Envoy:
    """An Envoy that has acknowledged all of a snapshot, or nothing yet."""
    stream = DeltaStream(now_s=0)
    if holds is not None:
        stream.on_snapshot(Published(holds, changed(None, holds)), 0)
        for kind in ResourceType:
            _acknowledge(stream, stream.on_request(_subscribe(kind, holds), 0))
    return Envoy(stream=stream, peer="ipv4:10.0.0.1:1", connected_s=0, node=node)


def _subscribe(kind: ResourceType, holds: Snapshot) -> Request:
    return Request(resource_type=kind, subscribe=tuple(holds.of(kind)))


def _acknowledge(stream: DeltaStream, actions: list[Any]) -> None:
    for action in actions:
        if isinstance(action, Send):
            request = Request(resource_type=action.resource_type, nonce=action.nonce)
            _acknowledge(stream, stream.on_request(request, 0))
