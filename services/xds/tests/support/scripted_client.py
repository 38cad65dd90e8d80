"""A client that says what a test tells it to, and snapshots of made-up resources."""

from __future__ import annotations

from collections.abc import Mapping

from control_plane.hub import Published
from control_plane.protocol.messages import Acked, Action, Rejected, Request, Send, Silent
from control_plane.protocol.stream import DeltaStream
from control_plane.snapshot import Resource, ResourceType, Snapshot, changed

CLUSTER = ResourceType.CLUSTER
ENDPOINTS = ResourceType.ENDPOINTS
LISTENER = ResourceType.LISTENER
ROUTE = ResourceType.ROUTE
RUNTIME = ResourceType.RUNTIME


def snapshot(
    *,
    clusters: Mapping[str, str] | None = None,
    endpoints: Mapping[str, str] | None = None,
    listeners: Mapping[str, str] | None = None,
    routes: Mapping[str, str] | None = None,
    required: tuple[str, ...] = (),
    created_s: float = 0.0,
) -> Snapshot:
    """Resources given as name -> content; every route leads to the `required` clusters."""
    given = {CLUSTER: clusters, ENDPOINTS: endpoints, LISTENER: listeners, ROUTE: routes}
    return Snapshot(
        resources={
            kind: {
                name: Resource(
                    name, body.encode(), frozenset(required) if kind is ROUTE else frozenset()
                )
                for name, body in sorted(bodies.items())
            }
            for kind, bodies in given.items()
            if bodies is not None
        },
        created_s=created_s,
    )


class ScriptedClient:
    """Drives a DeltaStream. What it is sent waits in `inbox` until acknowledged or rejected."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.stream = DeltaStream(now_s=self.now_s)
        self._published: Snapshot | None = None
        self.inbox: list[Send] = []
        self.events: list[Acked | Rejected | Silent] = []

    def publish(self, published: Snapshot) -> list[Send]:
        names = changed(self._published, published)
        self._published = published
        return self._take(self.stream.on_snapshot(Published(published, names), self.now_s))

    def ask(
        self,
        kind: ResourceType,
        *names: str,
        unsubscribe: tuple[str, ...] = (),
        versions: Mapping[str, str] | None = None,
        nonce: str = "",
    ) -> list[Send]:
        request = Request(
            resource_type=kind,
            subscribe=names,
            unsubscribe=unsubscribe,
            initial_versions=versions or {},
            nonce=nonce,
        )
        return self._take(self.stream.on_request(request, self.now_s))

    def ack(self, send: Send) -> list[Send]:
        self.inbox.remove(send)
        request = Request(resource_type=send.resource_type, nonce=send.nonce)
        return self._take(self.stream.on_request(request, self.now_s))

    def ack_all(self) -> None:
        while self.inbox:
            self.ack(self.inbox[0])

    def reject(self, send: Send, detail: str = "bad") -> list[Send]:
        self.inbox.remove(send)
        request = Request(resource_type=send.resource_type, nonce=send.nonce, error=detail)
        return self._take(self.stream.on_request(request, self.now_s))

    def after(self, seconds: float) -> list[Send]:
        """What it is sent once so much time has passed, on a clock of its own."""
        self.now_s += seconds
        return self._take(self.stream.on_tick(self.now_s))

    def _take(self, actions: list[Action]) -> list[Send]:
        sends = [action for action in actions if isinstance(action, Send)]
        self.events += [action for action in actions if not isinstance(action, Send)]
        self.inbox += sends
        return sends


def content(send: Send) -> dict[str, str]:
    """Name -> content of what was sent."""
    return {resource.name: resource.body.decode() for resource in send.resources}


def kinds(sends: list[Send]) -> list[ResourceType]:
    return [send.resource_type for send in sends]
